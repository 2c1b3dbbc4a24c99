"""What a newly trained vocabulary keeps of the source tokenizer: special and added tokens, their roles, chat template.

A chat model's template spells its marks out (`<|im_end|>`, `[INST]`), so they stay tokens, by the same strings.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer

from tasks.pretrained import load_tokenizer
from tasks.tokenizer.sentencepiece_training import SPACE

_ROLES = ("bos", "eos", "unk", "pad", "cls", "sep", "mask")


@dataclass(frozen=True)
class SourceTokens:
    """The special and added tokens of a tokenizer.

    Attributes:
        roles: strings of its special tokens by role ("bos", "eos", "unk", "pad", "cls", "sep", "mask").
        added: its special and added tokens in the order of their ids; those of white space alone are left out: they
            belong to how it writes text.
        additional: strings of the special tokens that it lists without a role.
        chat_template: its chat template; named templates as a list of {"name", "template"}; None where it has none.
    """

    roles: Mapping[str, str]
    added: tuple[AddedToken, ...] = ()
    additional: tuple[str, ...] = ()
    chat_template: str | list[dict[str, str]] | None = None

    def names(self, usual: Mapping[str, str]) -> dict[str, str]:
        """Strings for the special tokens of a new vocabulary, by role: the source's, each for one role only.

        Args:
            usual: the string of each role that the new vocabulary has, where the source has none or where another role
                has taken it (GPT-2's <|endoftext|> is BOS, EOS and unknown; it becomes the EOS).
        """
        found: dict[str, str] = {}
        for role in sorted(usual, key=_by_importance):
            name = self.roles.get(role)
            taken = {*found.values(), *(other for key, other in self.roles.items() if key != role)}
            found[role] = name if name is not None and name not in found.values() else _free(usual[role], taken)
        return {role: found[role] for role in usual}

    def add_to(self, tokenizer: Tokenizer) -> None:
        """Add the tokens that `tokenizer` does not have as special tokens yet, in their order, after all others."""
        there = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
        tokenizer.add_tokens([token for token in self.added if token.content not in there])

    def settings(self, names: Mapping[str, str]) -> dict[str, Any]:
        """The settings of tokenizer_config.json that keep roles, further special tokens and chat template.

        Args:
            names: the new vocabulary's own special tokens (`names`); a role that it does not have stays the source's.
        """
        roles = {**self.roles, **names}
        settings: dict[str, Any] = {f"{role}_token": name for role, name in roles.items()}
        if self.additional:
            settings["additional_special_tokens"] = list(self.additional)
        if self.chat_template is not None:
            settings["chat_template"] = self.chat_template
        return settings


NOTHING = SourceTokens({})


def read_source_tokens(folder: Path) -> SourceTokens:
    """The special and added tokens of the tokenizer in `folder`.

    Raises:
        InputError: there is no tokenizer that can be read.
    """
    loaded = load_tokenizer(folder, "source tokenizer")
    roles = {role: getattr(loaded, f"{role}_token", None) for role in _ROLES}
    added = [token for _, token in sorted(loaded.added_tokens_decoder.items()) if not _is_blank(token.content)]
    contents = {token.content for token in added}
    listed = getattr(loaded, "additional_special_tokens", None) or getattr(loaded, "extra_special_tokens", None) or []
    template = loaded.chat_template
    if isinstance(template, dict):
        template = [{"name": name, "template": text} for name, text in sorted(template.items())]
    return SourceTokens(
        roles={role: str(name) for role, name in roles.items() if name is not None and str(name) in contents},
        added=tuple(_as_written(token) for token in added),
        additional=tuple(str(name) for name in listed if str(name) in contents),
        chat_template=template,
    )


def _is_blank(text: str) -> bool:
    return not text.replace(SPACE, " ").strip()


def _as_written(token: AddedToken) -> AddedToken:
    """`token`, found in a text as it stands there: the new normalizer would write a space before it."""
    return AddedToken(
        token.content,
        single_word=token.single_word,
        lstrip=token.lstrip,
        rstrip=token.rstrip,
        normalized=False,
        special=token.special,
    )


def _by_importance(role: str) -> int:
    return ("eos", "bos", "unk").index(role)


def _free(name: str, taken: set[str]) -> str:
    """`name`, or where that is taken the same with underscores in front."""
    while name in taken:
        name = f"_{name}"
    return name
