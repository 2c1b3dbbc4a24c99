"""The tokenizer of a helper model, as it is."""

import json
import shutil
from pathlib import Path
from typing import Any

from tasks.contract import InputError
from tasks.tokenizer.convert import fast_tokenizer, write_json, write_sentencepiece
from tasks.tokenizer.load import TOKENIZER_FILES, load_backend, load_tokenizer
from tasks.tokenizer.round_trip import check_round_trip
from tasks.tokenizer.self_check import AWKWARD
from tasks.tokenizer.strategies import Checked, Job, Made, Strategy

_ROLE = "helper tokenizer"
_PLAIN = "PreTrainedTokenizerFast"
_SPECIAL = ("bos_token", "eos_token", "unk_token", "pad_token")
# What the special tokens are called where no file names them, the first that there is.
_USUAL = {
    "bos_token": ("<s>", "<|begin_of_text|>", "<bos>", "<|endoftext|>"),
    "eos_token": ("</s>", "<|end_of_text|>", "<eos>", "<|endoftext|>"),
    "unk_token": ("<unk>", "[UNK]"),
}


def make(job: Job) -> Made:
    """Copy the helper's tokenizer, and see to it that transformers reads tokenizer.json as it stands.

    The class that some tokenizers name puts parts of its own in their place (a space before the text, for instance),
    and not the same ones in every version of transformers.
    """
    tokenizer = copy_existing(job.inputs["helper"], job.out)
    theirs = load_tokenizer(job.out, _ROLE).backend_tokenizer
    if all(tokenizer.encode(text).ids == theirs.encode(text).ids for text in AWKWARD):
        return Made(tokenizer)
    path = job.out / "tokenizer_config.json"
    config = _json(path)
    named = config.get("tokenizer_class")
    before = (_json(job.out / "tokenizer.json").get("pre_tokenizer") or {}).get("add_prefix_space")
    space = {} if before is None else {"add_prefix_space": before}
    write_json(path, {**config, **space, "tokenizer_class": _PLAIN})
    return Made(tokenizer, {"notes": [f"tokenizer_class is {_PLAIN}: {named} gives other ids than tokenizer.json"]})


def copy_existing(folder: Path, out: Path) -> Any:
    """Copy the tokenizer in `folder` to `out`, with a tokenizer.json and a tokenizer_config.json in any case.

    Only files of tokenizers are copied, byte for byte but for: code of its own (`auto_map`), which is never run; a
    length at which texts are cut, or to which they are padded, which would change every text read with it. Where
    tokenizer.json is missing it is made by transformers, or, of a bare SentencePiece model, by this package.

    Returns:
        The `tokenizers.Tokenizer` in `out`.

    Raises:
        InputError: there is no tokenizer, it cannot be read without its own code, or it has no fast version.
    """
    names = [name for name in TOKENIZER_FILES if (folder / name).is_file()]
    if names == ["tokenizer.model"]:
        model = (folder / "tokenizer.model").read_bytes()
        write_sentencepiece(model, fast_tokenizer(model), out)
        return load_backend(out, _ROLE)
    for name in names:
        shutil.copyfile(folder / name, out / name)
    _settle_config(out)
    if "tokenizer.json" in names:
        _settle_lengths(out / "tokenizer.json")
    else:
        made = load_tokenizer(out, _ROLE).backend_tokenizer
        made.no_truncation()
        made.no_padding()
        (out / "tokenizer.json").write_text(made.to_str(pretty=False) + "\n", encoding="utf-8")
    return load_backend(out, _ROLE)


def _settle_config(out: Path) -> None:
    """A tokenizer_config.json from which transformers loads tokenizer.json without code from elsewhere."""
    path = out / "tokenizer_config.json"
    if path.is_file():
        config = _json(path)
        if config.pop("auto_map", None) is not None:
            config["tokenizer_class"] = _PLAIN
            write_json(path, config)
        return
    special = out / "special_tokens_map.json"
    known = _json(special) if special.is_file() else _usual_names(out / "tokenizer.json")
    write_json(
        path,
        {
            **{name: known[name] for name in _SPECIAL if name in known},
            "clean_up_tokenization_spaces": False,
            "tokenizer_class": _PLAIN,
        },
    )


def _usual_names(path: Path) -> dict[str, str]:
    """The special tokens of a tokenizer.json that have a usual name, by their role."""
    added = _json(path).get("added_tokens") or [] if path.is_file() else []
    special = {token["content"] for token in added if token.get("special")}
    found = {role: [name for name in names if name in special] for role, names in _USUAL.items()}
    return {role: names[0] for role, names in found.items() if names}


def _settle_lengths(path: Path) -> None:
    """Take truncation and padding out of tokenizer.json; the file is left as it is where it has none."""
    content = _json(path)
    if content.get("truncation") is None and content.get("padding") is None:
        return
    content |= {"truncation": None, "padding": None}
    path.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{_ROLE}: {path.name} is no JSON: {error}") from error
    if not isinstance(content, dict):
        raise InputError(f"{_ROLE}: {path.name} holds a {type(content).__name__}, an object is needed")
    return content


def check(job: Job, made: Made) -> Checked:
    """What becomes of held-out text; a tokenizer that normalises is taken as it is, and the report says what is lost.

    Raises:
        InputError: held-out text is unknown to the tokenizer for the most part: it is not one of this language.
    """
    loaded = load_tokenizer(job.out, _ROLE)
    found = check_round_trip(made.tokenizer, loaded, job.validation())
    if found.unknown_share > 0.5:
        raise InputError(
            f"{_ROLE}: {found.unknown_share:.0%} of the tokens of held-out text are unknown to it; "
            "take a helper model of this language"
        )
    found.notes += made.report.get("notes", [])
    if "eos" not in found.special_tokens:
        found.notes.append("no EOS token is named: documents are packed without a mark of their end")
    if found.same_ids < 1.0:
        found.notes.append("transformers gives some texts other ids than tokenizer.json; training reads that")
    return found.checked()


STRATEGY = Strategy(make=make, check=check, reads_text=False)
