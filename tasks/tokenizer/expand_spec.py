"""Editing of a BPE tokenizer.json: new tokens and their merges, everything else as it was.

A merge at the end of the list has the lowest priority, so text is first cut exactly as before, and only then are
pieces joined. The rules kept here make that exact:

- The result of an appended merge is always a new token. (A merge to an old token would change text in which no new
  token occurs.) No old merge has a new token as a part, so joining never sets an old merge off.
- Every pair of tokens whose strings make up a new token gets a merge, as SentencePiece would join them. The cut inside
  a span whose two ends are boundaries does not depend on what stands around it, so a new token always stands for the
  same old pieces: those that the source model cuts the token itself into.
- A new character of a byte-fallback model needs no merge: it is read as itself instead of as its bytes.
"""

import copy
import json
from collections.abc import Iterable, Sequence
from typing import Any

from tasks.contract import InputError
from tasks.embeddings.canonical import kind_of


def expandable_kind(spec: dict[str, Any]) -> str:
    """Which kind of BPE the tokenizer.json `spec` holds: "byte-level" or "sentencepiece".

    Raises:
        InputError: new tokens cannot be merged into it: another algorithm, no way to write unknown characters as
            bytes, marks inside or at the end of words, or dropout.
    """
    model = spec.get("model", {})
    name = model.get("type") or ("BPE" if "merges" in model else "unknown")
    todo = "choose a source model with a byte-level or byte-fallback BPE vocabulary, or tokenizer.strategy: train"
    if name != "BPE":
        raise InputError(f"tokenizer.strategy expand: the source tokenizer is {name}, not BPE; {todo}")
    for key in ("continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(key):
            raise InputError(f"tokenizer.strategy expand: the source tokenizer has {key} {model[key]!r}; {todo}")
    if model.get("dropout"):
        raise InputError(
            f"tokenizer.strategy expand: the source tokenizer cuts at random (dropout {model['dropout']}); "
            "set model.dropout to null in its tokenizer.json"
        )
    kind = kind_of(spec)
    if kind == "byte-level" or (kind == "sentencepiece" and model.get("byte_fallback")):
        return kind
    raise InputError(
        f"tokenizer.strategy expand: the source tokenizer is BPE of kind {kind!r} without bytes for unknown "
        f"characters; {todo}"
    )


def token_ids(spec: dict[str, Any]) -> dict[str, int]:
    """Every token of `spec` with its id: the model's and the added ones."""
    vocabulary: dict[str, int] = spec["model"]["vocab"]
    return vocabulary | {added["content"]: added["id"] for added in spec.get("added_tokens", ())}


def merge_pairs(spec: dict[str, Any]) -> list[tuple[str, str]]:
    """The merges, from either form of writing them ("a b" or ["a", "b"])."""
    pairs = (merge.split(" ", 1) if isinstance(merge, str) else merge for merge in spec["model"]["merges"])
    return [(left, right) for left, right in pairs]


def add_tokens(spec: dict[str, Any], tokens: Sequence[str], first_id: int | None = None) -> dict[str, Any]:
    """A copy of `spec` with `tokens` appended: ids after all others, merges after all others, in the given order.

    Added tokens that are not in the model's vocabulary (Llama-3, GPT-NeoX) are written into it with their ids:
    `tokenizers` numbers those by the vocabulary's size when it reads the file, and a larger vocabulary would move them.

    Args:
        spec: content of a tokenizer.json with a BPE model.
        tokens: new tokens in the model's own writing, the most important first.
        first_id: id of the first of them; the least free one when None.

    Raises:
        ValueError: a token is there already.
    """
    old = token_ids(spec)
    twice = [token for token in tokens if token in old]
    if twice or len(set(tokens)) != len(tokens):
        raise ValueError(f"tokens that are there already: {twice[:10]}")
    start = max(old.values(), default=-1) + 1 if first_id is None else first_id
    model = spec["model"]
    joinable = set(model["vocab"]) - _not_from_text(spec)
    vocabulary = old | {token: start + n for n, token in enumerate(tokens)}
    appended = splits(tokens, joinable | set(tokens))
    as_text = bool(model["merges"]) and isinstance(model["merges"][0], str)
    result = {key: copy.deepcopy(value) for key, value in spec.items() if key != "model"}
    result["model"] = {
        **{key: value for key, value in model.items() if key not in ("vocab", "merges")},
        "vocab": dict(sorted(vocabulary.items(), key=lambda item: item[1])),
        "merges": [*model["merges"], *(f"{a} {b}" if as_text else [a, b] for a, b in appended)],
    }
    return result


def splits(tokens: Iterable[str], parts: set[str]) -> list[tuple[str, str]]:
    """Every way to make each of `tokens` of two `parts`, in the order of `tokens`, shorter left part first."""
    return [
        (token[:cut], token[cut:])
        for token in tokens
        for cut in range(1, len(token))
        if token[:cut] in parts and token[cut:] in parts
    ]


def bare_model(spec: dict[str, Any], characters: Iterable[str] = ()) -> str:
    """The tokenizer.json of the model alone: it cuts a string in the model's own writing, by merges only.

    Args:
        spec: content of a tokenizer.json with a BPE model.
        characters: characters that shall be tokens of their own, as if they had been added.
    """
    vocabulary = dict(spec["model"]["vocab"])
    size = max(token_ids(spec).values(), default=-1) + 1
    for character in characters:
        if character not in vocabulary:
            vocabulary[character] = size
            size += 1
    return json.dumps(
        {
            "version": "1.0",
            "added_tokens": [],
            "normalizer": None,
            "pre_tokenizer": None,
            "post_processor": None,
            "decoder": None,
            "model": {**spec["model"], "type": "BPE", "vocab": vocabulary, "ignore_merges": False},
        },
        ensure_ascii=False,
    )


def _not_from_text(spec: dict[str, Any]) -> set[str]:
    """Tokens that no merge makes a part of: added tokens and SentencePiece's bytes."""
    bytes_written = {f"<0x{byte:02X}>" for byte in range(256)} if spec["model"].get("byte_fallback") else set()
    return bytes_written | {added["content"] for added in spec.get("added_tokens", ())}
