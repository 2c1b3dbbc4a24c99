"""Alignment units from tokens: word units (tokens of one word joined) or single tokens.

A word is a run of letters, combining marks and digits in the *text*; two tokens are joined when the end of one and the
start of the next are neighbouring characters of one run, or when they share a character (bytes of one character). The
rule looks at characters and offsets only, never at the tokenizer's own spelling of a token, so it is the same for
SentencePiece and byte-level vocabularies in every script. Apostrophes, hyphens and other punctuation separate; in
scripts without spaces between words a run is one unit, so those are aligned by token.

The only thing read from a vocabulary is which tokens are a bare word-start mark, and which begin with one: a bare mark
has no character of its own and joins the token after it.
"""

import sys
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tasks.alignment.links import Int32, Int64, offsets_from_lengths

Bool = npt.NDArray[np.bool_]
UInt8 = npt.NDArray[np.uint8]

OTHER, WORD, BLANK = 0, 1, 2
JOINERS = "\u200c\u200d"  # zero-width non-joiner and joiner stand inside words (Persian, Indic scripts)
INVISIBLE = "\u200b\u2060\ufeff\u2581"  # treated as blanks; U+2581 is SentencePiece's own mark for one

Unit = Literal["words", "tokens"]


_UNKNOWN = 255
_classes = np.full(sys.maxunicode + 1, _UNKNOWN, dtype=np.uint8)  # filled as code points are met: all take 0.25 s


def character_classes(code_points: npt.NDArray[np.uint32]) -> UInt8:
    """`WORD` (letter, mark, digit, number), `BLANK` (space, control) or `OTHER` of each code point: uint8."""
    found = _classes[code_points]
    unknown = found == _UNKNOWN
    if unknown.any():
        new = np.unique(code_points[unknown])
        _classes[new] = [_class_of(chr(code_point)) for code_point in new.tolist()]
        found = _classes[code_points]
    return found


def _class_of(character: str) -> int:
    if character in JOINERS:
        return WORD
    category = unicodedata.category(character)
    if category == "Cc" or category[0] == "Z" or character in INVISIBLE:
        return BLANK
    return WORD if category[0] in "LMN" else OTHER


@dataclass(frozen=True)
class Vocabulary:
    """What the unit rule needs to know of a tokenizer's vocabulary; bool arrays by token id.

    Attributes:
        special: special tokens (never part of a unit).
        bare_mark: tokens that are one word-start mark and nothing else.
        marked: tokens that begin with a word-start mark.
    """

    special: Bool
    bare_mark: Bool
    marked: Bool


def vocabulary(backend: Any, special_ids: Sequence[int] = ()) -> Vocabulary:
    """The `Vocabulary` of a `tokenizers.Tokenizer`.

    Args:
        backend: the tokenizer.
        special_ids: special tokens besides those that the tokenizer itself marks as special.
    """
    # The byte-level alphabet spells a space as U+0120, which in other vocabularies is a letter.
    parts = (backend.pre_tokenizer, backend.decoder)
    mark = "\u0120" if any("ByteLevel" in str(part) for part in parts if part is not None) else "\u2581"
    tokens = backend.get_vocab(with_added_tokens=True)
    size = max(tokens.values(), default=-1) + 1
    special, bare, marked = (np.zeros(size, dtype=bool) for _ in range(3))
    bare[[number for token, number in tokens.items() if token == mark]] = True
    marked[[number for token, number in tokens.items() if token.startswith(mark)]] = True
    added = backend.get_added_tokens_decoder()
    special[[number for number, token in added.items() if token.special]] = True
    special[[number for number in special_ids if number < size]] = True
    return Vocabulary(special, bare, marked)


@dataclass(frozen=True)
class TokenBatch:
    """The tokens of S sentences.

    Attributes:
        ids: int32 [K], special tokens left out.
        starts: int64 [K], first character of each token, counted from the first sentence's first character.
        ends: int64 [K], after the last character.
        sentence: int64 [K], sentence of each token, ascending.
        code_points: uint32 [characters of all sentences].
    """

    ids: Int32
    starts: Int64
    ends: Int64
    sentence: Int64
    code_points: npt.NDArray[np.uint32]


def encode(backend: Any, texts: Sequence[str], vocabulary: Vocabulary) -> TokenBatch:
    """Tokenise `texts` without special tokens; offsets become positions in the concatenation of the texts."""
    encodings = backend.encode_batch(list(texts), add_special_tokens=False)
    lengths = np.fromiter((len(encoding) for encoding in encodings), dtype=np.int64, count=len(texts))
    count = int(lengths.sum())
    ids = np.empty(count, dtype=np.int32)
    offsets = np.empty((count, 2), dtype=np.int64)
    position = 0
    for encoding in encodings:
        end = position + len(encoding)
        if end > position:
            ids[position:end] = encoding.ids
            offsets[position:end] = encoding.offsets
        position = end
    characters = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    sentence = np.repeat(np.arange(len(texts), dtype=np.int64), lengths)
    offsets += (np.cumsum(characters) - characters)[sentence][:, None]
    code_points = np.frombuffer("".join(texts).encode("utf-32-le"), dtype=np.uint32)
    keep = ~vocabulary.special[ids]
    return TokenBatch(ids[keep], offsets[keep, 0], offsets[keep, 1], sentence[keep], code_points)


@dataclass(frozen=True)
class UnitBatch:
    """The units of S sentences; unit u has the tokens `token_ids[first[u]:first[u + 1]]`.

    Attributes:
        token_ids: int32 [K'], tokens of all units, in order.
        first: int64 [U + 1], first token of each unit.
        starts: int64 [U], first character of each unit's text in the concatenation of the sentences.
        ends: int64 [U], after the last character.
        lengths: int64 [S], units of each sentence.
    """

    token_ids: Int32
    first: Int64
    starts: Int64
    ends: Int64
    lengths: Int64

    def of_sentences(self, keep: Bool) -> "UnitBatch":
        """The units of the sentences in `keep` (bool [S]), as a batch of those sentences alone."""
        kept = np.repeat(keep, self.lengths)
        sizes = np.diff(self.first)
        return UnitBatch(
            self.token_ids[np.repeat(kept, sizes)],
            offsets_from_lengths(sizes[kept]),
            self.starts[kept],
            self.ends[kept],
            self.lengths[keep],
        )


def units(batch: TokenBatch, vocabulary: Vocabulary, sentences: int, unit: Unit = "words") -> UnitBatch:
    """The units of `batch`.

    A token that covers nothing visible is dropped, except a bare word-start mark, which joins the token after it
    unless that one begins with a mark of its own.

    Args:
        batch: tokens of `sentences` sentences.
        vocabulary: of their tokenizer.
        sentences: S.
        unit: 'words' joins the tokens of a word; 'tokens' makes every token a unit.
    """
    classes = character_classes(batch.code_points)
    starts, ends = _visible_spans(batch, classes)
    bare = vocabulary.bare_mark[batch.ids]
    same = np.zeros(len(batch.ids), dtype=bool)  # a token and the next are in one sentence
    same[:-1] = batch.sentence[:-1] == batch.sentence[1:]
    visible = (starts < ends) & ~bare
    leads = np.zeros(len(batch.ids), dtype=bool)  # a bare mark that joins the next token
    leads[:-1] = bare[:-1] & same[:-1] & visible[1:] & ~vocabulary.marked[batch.ids[1:]]
    kept = np.flatnonzero(visible | leads)
    ids, sentence, leads = batch.ids[kept], batch.sentence[kept], leads[kept]
    starts, ends = starts[kept], ends[kept]
    after_lead = np.zeros(len(ids), dtype=bool)
    after_lead[1:] = leads[:-1]
    joined = after_lead.copy()
    if unit == "words":
        joined |= _same_word(starts, ends, sentence, classes) & ~leads
    opens = np.flatnonzero(~joined)
    first = np.append(opens, len(ids)).astype(np.int64)
    # A unit that opens with a bare mark has the text of what follows.
    unit_starts = np.where(leads[opens], starts[np.minimum(opens + 1, max(len(ids) - 1, 0))], starts[opens])
    unit_ends = np.maximum.reduceat(ends, opens) if len(opens) else ends[:0]
    lengths = np.bincount(sentence[opens], minlength=sentences).astype(np.int64)
    return UnitBatch(ids, first, unit_starts, unit_ends, lengths)


def _visible_spans(batch: TokenBatch, classes: UInt8) -> tuple[Int64, Int64]:
    """Starts and ends of the tokens without blanks at either side; start >= end where nothing is left."""
    size = len(classes)
    positions = np.arange(size, dtype=np.int64)
    seen = classes != BLANK
    previous = np.zeros(size + 1, dtype=np.int64)  # after the last visible character before a position
    previous[1:] = np.maximum.accumulate(np.where(seen, positions + 1, 0))
    following = np.full(size + 1, size, dtype=np.int64)  # first visible character from a position on
    following[:-1] = np.minimum.accumulate(np.where(seen, positions, size)[::-1])[::-1]
    return following[batch.starts], previous[batch.ends]


def _same_word(starts: Int64, ends: Int64, sentence: Int64, classes: UInt8) -> Bool:
    """Whether each token belongs to the word of the token before it: bool [K]."""
    joined = np.zeros(len(starts), dtype=bool)
    if len(starts) < 2:
        return joined
    left_end, right_start = ends[:-1], starts[1:]
    word = classes == WORD
    inside = word[np.maximum(left_end - 1, 0)] & word[np.minimum(right_start, len(classes) - 1)]
    joined[1:] = (sentence[:-1] == sentence[1:]) & ((right_start < left_end) | ((right_start == left_end) & inside))
    return joined
