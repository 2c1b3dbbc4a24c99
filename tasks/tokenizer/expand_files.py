"""The files of an expanded tokenizer: the source's, with the new tokens in each of them."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from tasks.tokenizer.expand_sentencepiece import same_cuts, with_pieces
from tasks.tokenizer.expand_spec import add_tokens, bare_model, merge_pairs, token_ids

_UNCHANGED = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "chat_template.jinja")


def source_spec(source: Path, loaded: Any) -> dict[str, Any]:
    """The source's tokenizer.json, with the added tokens that it has once loaded.

    transformers adds tokens of the other files while loading; written into tokenizer.json, they keep their ids.

    Args:
        source: the source's folder.
        loaded: transformers' fast tokenizer loaded from it.
    """
    in_effect: dict[str, Any] = json.loads(loaded.backend_tokenizer.to_str())
    path = source / "tokenizer.json"
    if not path.is_file():
        return in_effect
    spec: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return spec | {"added_tokens": in_effect["added_tokens"]}


def write_files(
    source: Path, loaded: Any, spec: dict[str, Any], tokens: Sequence[str], first_id: int, out: Path
) -> None:
    """Write tokenizer.json, vocab.json and merges.txt with the new tokens, and copy the files that name none.

    Args:
        source: the source's folder.
        loaded: transformers' fast tokenizer loaded from it.
        spec: the source's tokenizer.json (`source_spec`).
        tokens: the new tokens, in the order of their ids.
        first_id: id of the first.
        out: folder to write into.
    """
    expanded = add_tokens(spec, tokens, first_id)
    (out / "tokenizer.json").write_text(json.dumps(expanded, ensure_ascii=False) + "\n", encoding="utf-8")
    if not (source / "tokenizer.json").is_file():
        loaded.save_pretrained(str(out / "converted"))
        for name in _UNCHANGED:
            if (out / "converted" / name).is_file():
                shutil.copyfile(out / "converted" / name, out / name)
        shutil.rmtree(out / "converted")
    for name in _UNCHANGED:
        if (source / name).is_file():
            shutil.copyfile(source / name, out / name)
    if (source / "chat_templates").is_dir():
        shutil.copytree(source / "chat_templates", out / "chat_templates")
    if (source / "vocab.json").is_file() and (source / "merges.txt").is_file():
        _write_slow_bpe(source, spec, expanded, out)


def write_model(
    source: Path, out: Path, spec: dict[str, Any], tokens: Sequence[str], first_id: int, strings: Sequence[str]
) -> str:
    """Write tokenizer.model with the new pieces if it cuts as tokenizer.json does; say what became of it.

    Args:
        source: the source's folder.
        out: folder to write into.
        spec: the source's tokenizer.json.
        tokens: the new tokens, in the order of their ids.
        first_id: id of the first.
        strings: strings in the model's own writing to compare on; where the source's own two files differ, they are
            not compared.

    Returns:
        "none" (the source has no such file), "kept", or "dropped: " and why.
    """
    path = source / "tokenizer.model"
    if not path.is_file():
        return "none"
    model = path.read_bytes()
    fillers = {i: token for token, i in token_ids(spec).items()}
    try:
        expanded = with_pieces(model, tokens, first_id, fillers)
        before = same_cuts(model, Tokenizer.from_str(bare_model(spec)), strings)
        after = same_cuts(expanded, Tokenizer.from_str(bare_model(add_tokens(spec, tokens, first_id))), strings)
    except (ValueError, RuntimeError, OSError) as error:
        return f"dropped: no SentencePiece model that new pieces can be written into ({str(error)[:200]})"
    changed = [text for text, old, new in zip(strings, before, after, strict=True) if old and not new]
    if changed:
        return f"dropped: it would cut {len(changed)} of {len(strings)} strings otherwise, as {changed[0]!r}"
    if not any(before):
        return "dropped: the source's tokenizer.model and tokenizer.json never agree"
    (out / "tokenizer.model").write_bytes(expanded)
    return "kept"


def _write_slow_bpe(source: Path, spec: dict[str, Any], expanded: dict[str, Any], out: Path) -> None:
    """vocab.json and merges.txt of byte-level BPE."""
    vocabulary = json.loads((source / "vocab.json").read_text(encoding="utf-8"))
    new = {token: i for token, i in expanded["model"]["vocab"].items() if token not in token_ids(spec)}
    (out / "vocab.json").write_text(json.dumps(vocabulary | new, ensure_ascii=False) + "\n", encoding="utf-8")
    old_lines = (source / "merges.txt").read_text(encoding="utf-8").rstrip("\n")
    added = merge_pairs(expanded)[len(spec["model"]["merges"]) :]
    lines = [old_lines, *(f"{left} {right}" for left, right in added)]
    (out / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
