"""Pieces of text that a tokenizer treats one by one, so that each distinct piece need be tokenised only once.

A chunk is a run of other characters with the blanks (U+0020) before it: "a bc  d" is "a", " bc", "  d". For many
tokenizers the tokens of a text are those of its chunks, one after the other:

- BPE behind a pre-tokenizer that always divides before the blanks of a chunk (GPT-2's pattern and the ones below, or
  Metaspace that splits);
- BPE over whole texts with blanks spelt U+2581, when no token has that mark after another character: no merge can then
  reach from one chunk into the next, and merges in different chunks do not influence each other.

Where a rule cannot be shown to hold (white space other than the blank, U+2581 in the text, added tokens in it) the
whole sentence is tokenised instead; tokenizers that are none of these are not chunked at all.
"""

import json
import re
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.alignment.compiled import compiled
from tasks.alignment.links import Int32, Int64
from tasks.alignment.units import Bool, UInt8

MARK = "\u2581"
# White space and controls other than the blank, and the mark: sentences with them are tokenised whole.
_NOT_PLAIN = r"[\x00-\x1f\x7f-\xa0\x{1680}\x{180e}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{2581}]"
_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
PATTERNS = frozenset(
    f"{_CONTRACTION}|[^\\r\\n\\p{{L}}\\p{{N}}]?\\p{{L}}+|\\p{{N}}{digits}|{_REST}" for digits in ("", "{1,3}")
)
"""Patterns of a Split pre-tokenizer (Llama 3, Qwen 2) of which no match reaches over the beginning of a chunk."""


@dataclass(frozen=True)
class ChunkRule:
    """How the chunks of a text are tokenised.

    Attributes:
        strip: a chunk that is not the first of its text is given without its first blank, because the tokenizer puts
            one before every text.
        added: added tokens; a text with one of them is tokenised whole.
        normalized: the tokenizer brings texts into NFC.
    """

    strip: bool
    added: tuple[str, ...]
    normalized: bool

    def whole(self, chunks: pa.StringArray) -> Bool:
        """Chunks whose sentences must be tokenised whole: bool [chunks]."""
        found = pc.match_substring_regex(chunks, self._pattern())
        if self.normalized:
            found = pc.or_(found, pc.match_substring_regex(pc.utf8_normalize(chunks, "NFC"), self._pattern()))
        return np.asarray(found.to_numpy(zero_copy_only=False), dtype=bool)

    def _pattern(self) -> str:
        return "|".join([_NOT_PLAIN, *(_quoted(token) for token in self.added)])


def _quoted(text: str) -> str:
    return "".join(f"\\x{{{ord(character):x}}}" for character in text)


def chunk_rule(backend: Any) -> ChunkRule | None:
    """The rule of a `tokenizers.Tokenizer`; None where texts are better not taken apart."""
    spec = json.loads(backend.to_str())
    model = spec["model"]
    unusual = ("dropout", "continuing_subword_prefix", "end_of_word_suffix")
    if model.get("type") != "BPE" or any(model.get(name) for name in unusual):
        return None
    spelling = _spelling(spec["normalizer"], spec["pre_tokenizer"])
    if spelling is None or (spelling in ("marked", "prepended") and not _marks_only_begin(model)):
        return None
    for token in spec["added_tokens"]:
        content = token["content"]
        if (" " in content and content.strip(" ")) or (MARK in content and token["normalized"]):
            return None
    contents = tuple(token["content"] for token in spec["added_tokens"] if token["content"])
    return ChunkRule(spelling == "prepended", contents, spec["normalizer"] == {"type": "NFC"})


def _spelling(normalizer: Any, pre_tokenizer: Any) -> Literal["divided", "marked", "prepended"] | None:
    """How blanks are treated: texts divided there, blanks spelt as marks, the same with a mark put before the text."""
    parts = pre_tokenizer["pretokenizers"] if (pre_tokenizer or {}).get("type") == "Sequence" else [pre_tokenizer]
    kinds = [(part or {}).get("type") for part in parts]
    spelt = {"type": "Replace", "pattern": {"String": " "}, "content": MARK}
    if normalizer in (None, {"type": "NFC"}):
        if kinds == ["ByteLevel"] and parts[0].get("use_regex", True):
            return "divided"
        if kinds == ["Split", "ByteLevel"] and _known_split(parts[0]) and not parts[1].get("use_regex", True):
            return "divided"
    if normalizer is None and kinds == ["Metaspace"] and parts[0]["replacement"] == MARK:
        return "divided" if parts[0].get("split", True) else "marked"
    if normalizer == spelt:
        nothing_left = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}
        return "marked" if pre_tokenizer in (None, nothing_left) else None
    prepended = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": MARK}, spelt]}
    return "prepended" if normalizer == prepended and pre_tokenizer is None else None


def _known_split(split: Any) -> bool:
    return split["pattern"].get("Regex") in PATTERNS and split["behavior"] == "Isolated" and not split["invert"]


def _marks_only_begin(model: Any) -> bool:
    """No token has the mark after another character, so that no merge reaches over the beginning of a chunk."""
    inside = re.compile(f"[^{MARK}]{MARK}")
    return (
        not model.get("ignore_merges")
        and MARK in model["vocab"]
        and not any(inside.search(token) for token in model["vocab"])
    )


@compiled
def _count_chunks(data: UInt8, offsets: Int64, counts: Int32) -> int:
    """Chunks of every text; returns their number."""
    total = 0
    for text in range(len(counts)):
        start, end = offsets[text], offsets[text + 1]
        found = 1 if end > start else 0
        for k in range(start + 1, end):
            if data[k] == 32 and data[k - 1] != 32:
                found += 1
        counts[text] = found
        total += found
    return total


@compiled
def _fill_chunks(data: UInt8, offsets: Int64, first: Int64) -> None:
    """First byte of every chunk, and the end of the last."""
    found = 0
    for text in range(len(offsets) - 1):
        start, end = offsets[text], offsets[text + 1]
        for k in range(start, end):
            if k == start or (data[k] == 32 and data[k - 1] != 32):
                first[found] = k
                found += 1
    first[found] = offsets[len(offsets) - 1]


def split_chunks(data: UInt8, offsets: Int64) -> tuple[Int64, Int32]:
    """The chunks of texts.

    Args:
        data: uint8 [bytes] of all texts, UTF-8.
        offsets: int64 [N + 1], boundaries of the texts; the first is 0, the last the end of `data`.

    Returns:
        int64 [C + 1] boundaries of the chunks, int32 [N] chunks of each text.
    """
    counts = np.empty(len(offsets) - 1, dtype=np.int32)
    first = np.empty(_count_chunks(data, offsets, counts) + 1, dtype=np.int64)
    _fill_chunks(data, offsets, first)
    return first, counts
