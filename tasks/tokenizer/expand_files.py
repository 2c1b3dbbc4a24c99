"""The files of an expanded tokenizer: the source's, with the new tokens in each of them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from tasks.pretrained import VOCABULARY_FILES
from tasks.tokenizer.expand_sentencepiece import same_cuts, with_pieces
from tasks.tokenizer.expand_spec import add_tokens, bare_model, merge_pairs, token_ids
from tasks.tokenizer.tokenizer_copy import read_json

_SLOW_BPE = ("vocab.json", "merges.txt")


def source_spec(folder: Path, loaded: Any) -> dict[str, Any]:
    """The tokenizer.json in `folder`, with the added tokens that it has once loaded.

    transformers adds tokens of the other files while loading; written into tokenizer.json, they keep their ids.

    Args:
        folder: a copy of the source's folder (`copy_settled`).
        loaded: transformers' fast tokenizer loaded from it.
    """
    in_effect: dict[str, Any] = json.loads(loaded.backend_tokenizer.to_str())
    return read_json(folder / "tokenizer.json", "source tokenizer") | {"added_tokens": in_effect["added_tokens"]}


def write_expanded(
    out: Path, spec: dict[str, Any], tokens: Sequence[str], first_id: int, strings: Sequence[str]
) -> str:
    """Put the new tokens into a copy of the source's files; a file that cannot take them is removed.

    tokenizer.json takes them always; vocab.json and merges.txt where both are there; tokenizer.model if it then cuts
    text as tokenizer.json does.

    Args:
        out: a copy of the source's folder, changed here.
        spec: the source's tokenizer.json (`source_spec`).
        tokens: the new tokens, in the order of their ids.
        first_id: id of the first.
        strings: strings in the model's own writing on which tokenizer.model is compared.

    Returns:
        What became of tokenizer.model: "none" (the source has no such file), "kept", or "dropped: " and why.
    """
    expanded = add_tokens(spec, tokens, first_id)
    (out / "tokenizer.json").write_text(json.dumps(expanded, ensure_ascii=False) + "\n", encoding="utf-8")
    written = {"tokenizer.json"}
    if all((out / name).is_file() for name in _SLOW_BPE):
        _write_slow_bpe(out, spec, expanded)
        written |= set(_SLOW_BPE)
    model, fate = None, "none"
    if (out / "tokenizer.model").is_file():
        model, fate = _with_pieces((out / "tokenizer.model").read_bytes(), spec, expanded, first_id, strings)
    for name in {*VOCABULARY_FILES, *_SLOW_BPE} - written:
        (out / name).unlink(missing_ok=True)
    if model is not None:
        (out / "tokenizer.model").write_bytes(model)
    return fate


def _with_pieces(
    model: bytes, spec: dict[str, Any], expanded: dict[str, Any], first_id: int, strings: Sequence[str]
) -> tuple[bytes | None, str]:
    """The SentencePiece file `model` with the new pieces, and its fate; None where it then cuts otherwise.

    Strings that the source's own two files cut differently are not compared.
    """
    tokens = [token for token, i in expanded["model"]["vocab"].items() if i >= first_id]  # in the order of their ids
    fillers = {i: token for token, i in token_ids(spec).items()}
    try:
        extended = with_pieces(model, tokens, first_id, fillers)
        before = same_cuts(model, Tokenizer.from_str(bare_model(spec)), strings)
        after = same_cuts(extended, Tokenizer.from_str(bare_model(expanded)), strings)
    except (ValueError, RuntimeError, OSError) as error:
        return None, f"dropped: no SentencePiece model that new pieces can be written into ({str(error)[:200]})"
    changed = [text for text, old, new in zip(strings, before, after, strict=True) if old and not new]
    if changed:
        return None, f"dropped: it would cut {len(changed)} of {len(strings)} strings otherwise, as {changed[0]!r}"
    if not any(before):
        return None, "dropped: the source's tokenizer.model and tokenizer.json never agree"
    return extended, "kept"


def _write_slow_bpe(out: Path, spec: dict[str, Any], expanded: dict[str, Any]) -> None:
    """vocab.json and merges.txt of byte-level BPE."""
    vocabulary = read_json(out / "vocab.json", "source tokenizer")
    old = token_ids(spec)
    new = {token: i for token, i in expanded["model"]["vocab"].items() if token not in old}
    (out / "vocab.json").write_text(json.dumps(vocabulary | new, ensure_ascii=False) + "\n", encoding="utf-8")
    old_lines = (out / "merges.txt").read_text(encoding="utf-8").rstrip("\n")
    added = merge_pairs(expanded)[len(spec["model"]["merges"]) :]
    lines = [old_lines, *(f"{left} {right}" for left, right in added)]
    (out / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
