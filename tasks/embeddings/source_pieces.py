"""How the source tokenizer cuts the text of a target token."""

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from tasks.embeddings.canonical import Vocabulary

_ESCAPED_BYTE = re.compile("([\udc80-\udcff])")


class SourcePieces:
    """The source tokenizer without the space it puts before a text, so that word starts are what the token says.

    Args:
        tokenizer: the source model's fast tokenizer (transformers).
        vocabulary: its canonical vocabulary.
    """

    def __init__(self, tokenizer: Any, vocabulary: Vocabulary) -> None:
        spec = tokenizer.backend_tokenizer.to_str()
        self._vocabulary = vocabulary
        self._prefixing = _bare(json.loads(spec))
        self._exact = _bare(without_prefix(json.loads(spec)))
        probe = b"".join(vocabulary.surfaces[i] for i in self._exact.encode(" a", add_special_tokens=False).ids)
        self._keeps_spaces = probe == b" a"
        self._byte_ids = _byte_ids(vocabulary)

    def decompose(self, keys: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The source tokens of each key, without special tokens (among them the unknown token).

        A key (`Vocabulary.keys`) that holds bytes which are no whole character is cut there, and those bytes become
        the source's byte tokens, where it has them.

        Args:
            keys: texts; a leading space starts a word.

        Returns:
            (position of the key, source id) of each piece, in order: int64 [pieces] each.
        """
        broken = [n for n, key in enumerate(keys) if _ESCAPED_BYTE.search(key)]
        whole = sorted(set(range(len(keys))) - set(broken))
        positions, ids = self._encode([keys[n] for n in whole])
        parts = [(np.array(whole, dtype=np.int64)[positions], ids)]
        for n in broken:
            pieces = self._bytes_and_text(keys[n])
            parts.append((np.full(len(pieces), n, dtype=np.int64), np.array(pieces, dtype=np.int64)))
        positions = np.concatenate([part[0] for part in parts])
        ids = np.concatenate([part[1] for part in parts])
        known = (ids < len(self._vocabulary)) & ~self._vocabulary.special[np.minimum(ids, len(self._vocabulary) - 1)]
        order = np.argsort(positions[known], kind="stable")
        return positions[known][order], ids[known][order]

    def has_unknown(self, keys: Sequence[str]) -> NDArray[np.bool_]:
        """Which keys the source tokenizer cannot cut without its unknown token: bool [keys].

        Bytes that are no whole character count as known where the source has a token for each.
        """
        parts = [(n, part) for n, key in enumerate(keys) for part in filter(None, _ESCAPED_BYTE.split(key))]
        texts = [(n, part) for n, part in parts if not _ESCAPED_BYTE.fullmatch(part)]
        positions, ids = self._encode([part for _, part in texts])
        outside = ids >= len(self._vocabulary)
        unknown = outside | self._vocabulary.special[np.where(outside, 0, ids)]
        found = np.zeros(len(keys), dtype=bool)
        found[np.array([n for n, _ in texts], dtype=np.int64)[positions[unknown]]] = True
        lost = [n for n, part in parts if _ESCAPED_BYTE.fullmatch(part) and ord(part) - 0xDC00 not in self._byte_ids]
        found[lost] = True
        return found

    def _encode(self, texts: list[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if self._keeps_spaces:
            encodings = self._exact.encode_batch(texts, add_special_tokens=False)
        else:
            starts = self._prefixing.encode_batch([text[1:] for text in texts], add_special_tokens=False)
            inner = self._exact.encode_batch(texts, add_special_tokens=False)
            encodings = [
                start if text.startswith(" ") else other
                for text, start, other in zip(texts, starts, inner, strict=True)
            ]
        counts = [len(encoding.ids) for encoding in encodings]
        ids = np.array([i for encoding in encodings for i in encoding.ids], dtype=np.int64)
        return np.repeat(np.arange(len(texts), dtype=np.int64), counts), ids

    def _bytes_and_text(self, key: str) -> list[int]:
        pieces: list[int] = []
        for part in filter(None, _ESCAPED_BYTE.split(key)):
            if _ESCAPED_BYTE.fullmatch(part):
                byte = ord(part) - 0xDC00
                pieces += [self._byte_ids[byte]] if byte in self._byte_ids else []
            else:
                pieces += self._encode([part])[1].tolist()
        return pieces


def without_prefix(spec: dict[str, Any]) -> dict[str, Any]:
    """The tokenizer.json `spec`, changed in place, that puts no space before a text."""
    spec["normalizer"] = _unprefixed(spec.get("normalizer"))
    spec["pre_tokenizer"] = _unprefixed(spec.get("pre_tokenizer"))
    return spec


def _unprefixed(part: dict[str, Any] | None) -> dict[str, Any] | None:
    if part is None or part.get("type") == "Prepend":
        return None
    for name in ("normalizers", "pretokenizers"):
        if name in part:
            part[name] = [child for child in map(_unprefixed, part[name]) if child is not None]
    if "prepend_scheme" in part:
        part["prepend_scheme"] = "never"
    if "add_prefix_space" in part:
        part["add_prefix_space"] = False
    return part


def _bare(spec: dict[str, Any]) -> Tokenizer:
    """The tokenizer of `spec` that adds and recognises no special tokens."""
    tokenizer = Tokenizer.from_str(json.dumps({**spec, "post_processor": None, "truncation": None, "padding": None}))
    tokenizer.encode_special_tokens = True
    return tokenizer


def _byte_ids(vocabulary: Vocabulary) -> dict[int, int]:
    """The source token of each byte, a byte token before a token that happens to be one byte long."""
    single = [i for i, surface in enumerate(vocabulary.surfaces) if len(surface) == 1]
    single.sort(key=lambda i: (not vocabulary.byte[i], vocabulary.tokens[i]))
    found: dict[int, int] = {}
    for i in single:
        found.setdefault(vocabulary.surfaces[i][0], i)
    return found
