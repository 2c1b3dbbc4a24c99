"""config.json and generation_config.json of a model with another vocabulary."""

import copy
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.pretrained import dtype_field

# Fields of a generation config that hold token ids of the old vocabulary.
_OLD_IDS = (
    "forced_bos_token_id",
    "forced_eos_token_id",
    "suppress_tokens",
    "begin_suppress_tokens",
    "bad_words_ids",
    "force_words_ids",
    "sequence_bias",
    "decoder_start_token_id",
)
_SAMPLING = {"temperature": 1.0, "top_p": 1.0, "min_p": None, "typical_p": 1.0, "top_k": 50}


@dataclass(frozen=True)
class NewVocabulary:
    """What a model's configuration says of its new vocabulary.

    Attributes:
        tokenizer: the new tokenizer.
        copies: for an old id the new tokens that are copies of its row, ascending.
        tokens: ids that stand for a token.
        rows: rows of the vocabulary tables; those from `tokens` on are padding.
    """

    tokenizer: Any
    copies: Callable[[int], Sequence[int]]
    tokens: int
    rows: int

    def role(self, role: str) -> int | None:
        """The id of a special token: role "bos", "eos", "unk", "pad", "cls", "sep" or "mask"."""
        found: int | None = getattr(self.tokenizer, f"{role}_token_id")
        return found

    def ends(self, old: int | Sequence[int] | None) -> int | list[int] | None:
        """The tokens that end a text: the new tokenizer's, and where the old model has several, their special copies.

        A chat model stops at the end of a turn as well (Llama 3: `<|end_of_text|>` and `<|eot_id|>`).
        """
        own = self.role("eos")
        found = [] if own is None else [own]
        special = {i for i, token in self.tokenizer.added_tokens_decoder.items() if token.special}
        for i in old if isinstance(old, Sequence) else ():
            copies = [new for new in self.copies(i) if new in special]
            found += [new for new in copies[:1] if own not in copies]
        ends = list(dict.fromkeys(found))
        return ends if len(ends) > 1 else next(iter(ends), None)


def new_config(config: Any, vocabulary: NewVocabulary, dtype: str | None) -> Any:
    """A copy of `config` for the new vocabulary.

    Args:
        config: the source model's.
        vocabulary: the new one.
        dtype: number format of the weights, "bfloat16"; None: what `config` says.
    """
    changed = copy.deepcopy(config)
    for part in {id(c): c for c in (changed, changed.get_text_config())}.values():
        if hasattr(part, "vocab_size"):
            part.vocab_size = vocabulary.rows
        part.eos_token_id = vocabulary.ends(part.eos_token_id)
        for role in ("bos", "pad"):
            setattr(part, f"{role}_token_id", vocabulary.role(role))
        for role in ("unk", "sep", "cls", "mask"):
            if getattr(part, f"{role}_token_id", None) is not None:
                setattr(part, f"{role}_token_id", vocabulary.role(role))
        if dtype is not None:
            setattr(part, dtype_field(), dtype)
    return changed


def new_generation_config(generation: Any, vocabulary: NewVocabulary) -> Any:
    """A copy of `generation` for the new vocabulary.

    Settings that name other tokens of the old vocabulary are dropped; padding rows are suppressed.

    Args:
        generation: the source model's generation config.
        vocabulary: the new vocabulary.
    """
    changed = copy.deepcopy(generation)
    changed.eos_token_id = vocabulary.ends(changed.eos_token_id)
    for role in ("bos", "pad"):
        setattr(changed, f"{role}_token_id", vocabulary.role(role))
    for name in _OLD_IDS:
        if getattr(changed, name, None) is not None:
            setattr(changed, name, None)
    if vocabulary.rows > vocabulary.tokens:
        changed.suppress_tokens = list(range(vocabulary.tokens, vocabulary.rows))
    # Some published models ship sampling values without sampling, which transformers refuses to save.
    if any(getattr(changed, name, None) not in (None, value) for name, value in _SAMPLING.items()):
        changed.do_sample = True
    return changed


def save_configs(config: Any, generation: Any, architecture: str, out: Path) -> None:
    """Write config.json and generation_config.json; neither names a path."""
    values = json.loads(config.to_json_string())
    values.pop("_name_or_path", None)
    values["architectures"] = [architecture]
    _write(out / "config.json", values)
    _write(out / "generation_config.json", json.loads(generation.to_json_string()))


def _write(path: Path, values: dict[str, Any]) -> None:
    path.write_text(json.dumps(values, indent=2, sort_keys=True) + "\n", encoding="utf-8")
