"""A copy of a tokenizer's files from which transformers reads the tokenizer.json as it stands."""

import json
from pathlib import Path
from typing import Any

from tasks.contract import InputError
from tasks.pretrained import copy_tokenizer, is_bare_sentencepiece, load_backend, load_tokenizer
from tasks.tokenizer.convert import fast_tokenizer, write_json, write_sentencepiece

PLAIN_CLASS = "PreTrainedTokenizerFast"
_SPECIAL = ("bos_token", "eos_token", "unk_token", "pad_token", "cls_token", "sep_token", "mask_token")
# What the special tokens are called where no file names them, the first that there is.
_USUAL = {
    "bos_token": ("<s>", "<|begin_of_text|>", "<bos>", "<|endoftext|>"),
    "eos_token": ("</s>", "<|end_of_text|>", "<eos>", "<|endoftext|>"),
    "unk_token": ("<unk>", "[UNK]"),
}


def copy_settled(folder: Path, out: Path, role: str) -> Any:
    """Copy the tokenizer in `folder` to `out`, with a tokenizer.json and a tokenizer_config.json in any case.

    Only files of tokenizers are copied, byte for byte but for: code of its own (`auto_map`), which is never run; a
    length at which texts are cut, or to which they are padded, which would change every text read with it. Where
    tokenizer.json is missing it is made by transformers, or, of a bare SentencePiece model, by this package.

    Args:
        folder: folder with the tokenizer.
        out: folder to write into.
        role: what the tokenizer is, for errors: "helper tokenizer".

    Returns:
        The `tokenizers.Tokenizer` in `out`.

    Raises:
        InputError: there is no tokenizer, it cannot be read without its own code, or it has no fast version.
    """
    if is_bare_sentencepiece(folder):
        model = (folder / "tokenizer.model").read_bytes()
        try:
            write_sentencepiece(model, fast_tokenizer(model), out)
        except ValueError as error:
            raise InputError(f"{role}: {folder}: {error}") from error
        return load_backend(out, role)
    copy_tokenizer(folder, out)
    names: dict[str, Any] | None = None
    if (folder / "tokenizer.json").is_file():
        _settle_lengths(out / "tokenizer.json", role)
    else:
        loaded = load_tokenizer(folder, role)  # where it stands: the model's config.json may name its class
        made = load_backend(folder, role, loaded).to_str(pretty=False)
        (out / "tokenizer.json").write_text(made + "\n", encoding="utf-8")
        names = loaded.special_tokens_map
    _settle_config(out, role, names)
    return load_backend(out, role)


def read_json(path: Path, role: str) -> dict[str, Any]:
    """The JSON object in the file `path` of a tokenizer.

    Raises:
        InputError: it is no JSON, or no object.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{role}: {path.name} is no JSON: {error}") from error
    if not isinstance(content, dict):
        raise InputError(f"{role}: {path.name} holds a {type(content).__name__}, an object is needed")
    return content


def _settle_config(out: Path, role: str, names: dict[str, Any] | None) -> None:
    """A tokenizer_config.json from which transformers loads tokenizer.json without code from elsewhere.

    `names` are the special tokens by their roles, where they are known already.
    """
    path = out / "tokenizer_config.json"
    if path.is_file():
        config = read_json(path, role)
        if config.pop("auto_map", None) is not None:
            config["tokenizer_class"] = PLAIN_CLASS
            write_json(path, config)
        return
    special = out / "special_tokens_map.json"
    if names is None:
        names = read_json(special, role) if special.is_file() else _usual_names(read_json(out / "tokenizer.json", role))
    known = {name: names[name] for name in _SPECIAL if names.get(name)}
    write_json(
        path,
        {
            **{name: token["content"] if isinstance(token, dict) else str(token) for name, token in known.items()},
            "clean_up_tokenization_spaces": False,
            "tokenizer_class": PLAIN_CLASS,
        },
    )


def _usual_names(spec: dict[str, Any]) -> dict[str, str]:
    """The special tokens of a tokenizer.json that have a usual name, by their role."""
    special = {token["content"] for token in spec.get("added_tokens") or [] if token.get("special")}
    found = {role: [name for name in names if name in special] for role, names in _USUAL.items()}
    return {role: names[0] for role, names in found.items() if names}


def _settle_lengths(path: Path, role: str) -> None:
    """Take truncation and padding out of tokenizer.json; the file is left as it is where it has none."""
    content = read_json(path, role)
    if content.get("truncation") is None and content.get("padding") is None:
        return
    content |= {"truncation": None, "padding": None}
    path.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
