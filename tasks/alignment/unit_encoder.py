"""Texts as numbers of units; a tokenizer that allows it is asked once for each distinct chunk of text."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.alignment.chunks import chunk_rule, split_chunks
from tasks.alignment.compiled import compiled
from tasks.alignment.growing import grown
from tasks.alignment.links import Int32, Int64, offsets_from_lengths
from tasks.alignment.unit_table import UnitTable
from tasks.alignment.units import UInt8, Unit, UnitBatch, Vocabulary, encode, units
from tasks.alignment.word_table import WordTable, buffers, hash_words

JOINED_CHUNKS = 32  # tokenised in one text: a call for each would take longer than its text
MOST_CHUNKS = 4 * 2**20  # about 300 MB; when there are more, all are forgotten


@compiled
def _gather(
    chunks: tuple[Int64, Int32],
    known: tuple[Int64, Int32],
    whole: tuple[Int64, Int64, Int32],
    numbers: Int32,
    lengths: Int64,
) -> int:
    """Write the units of every text one after the other; returns their number.

    Args:
        chunks: int64 [N + 1] chunks of each text, int32 [C] their numbers.
        known: int64 boundaries of each chunk's units, int32 units.
        whole: int64 [N] place among the texts tokenised whole, or -1; int64 boundaries of their units, int32 units.
        numbers: filled; long enough.
        lengths: int64 [N], filled with the units of each text.
    """
    first, chunk = chunks
    found = 0
    for text in range(len(lengths)):
        start = found
        place = whole[0][text]
        if place >= 0:
            for k in range(whole[1][place], whole[1][place + 1]):
                numbers[found] = whole[2][k]
                found += 1
        else:
            for c in range(first[text], first[text + 1]):
                for k in range(known[0][chunk[c]], known[0][chunk[c] + 1]):
                    numbers[found] = known[1][k]
                    found += 1
        lengths[text] = found - start
    return found


@dataclass(frozen=True)
class Tokenizer:
    """A fast tokenizer and what the unit rule needs of its vocabulary."""

    backend: Any
    vocabulary: Vocabulary


class UnitEncoder:
    """One side's texts as unit numbers; memory grows with the vocabulary, not with the text."""

    def __init__(self, tokenizer: Tokenizer, unit: Unit, by_chunks: bool = True) -> None:
        """No text yet.

        Args:
            tokenizer: of this side.
            unit: what a unit is.
            by_chunks: False: tokenise every text whole, whatever the tokenizer.
        """
        self._tokenizer, self._unit = tokenizer, unit
        self._rule = chunk_rule(tokenizer.backend) if by_chunks else None
        self.table = UnitTable()
        self._forget()

    def _forget(self) -> None:
        self._chunks = WordTable("chunks")
        self._first = np.zeros(2**16, dtype=np.int64)
        self._units = np.zeros(2**16, dtype=np.int32)
        self._special = np.zeros(2**16, dtype=bool)
        self._known = 0

    def encode(self, texts: pa.StringArray) -> tuple[Int32, Int64]:
        """The units of each text: int32 [units of all], numbers in `table`; int64 [N], units of each text."""
        if self._rule is None:
            return self._tokenised(texts)
        if len(self._chunks) > MOST_CHUNKS:
            self._forget()
        data, offsets = buffers(texts)
        first, counts = split_chunks(data, offsets)
        chunk_of = self._number(data, first)
        of_text = offsets_from_lengths(counts)
        self._learn(data, first, chunk_of)
        special = np.zeros(len(texts), dtype=bool)
        special[np.repeat(np.arange(len(texts)), counts)[self._special[chunk_of]]] = True
        if self._rule.strip:
            filled = counts > 0
            special[filled] |= data[offsets[:-1][filled]] == ord(" ")
        whole = np.flatnonzero(special)
        numbers, lengths = self._tokenised(texts.take(pa.array(whole)))
        place = np.full(len(texts), -1, dtype=np.int64)
        place[whole] = np.arange(len(whole))
        room = int(np.diff(self._first)[chunk_of].sum()) + len(numbers)
        result, sizes = np.empty(room, dtype=np.int32), np.empty(len(texts), dtype=np.int64)
        found = _gather(
            (of_text, chunk_of),
            (self._first, self._units),
            (place, offsets_from_lengths(lengths), numbers),
            result,
            sizes,
        )
        return result[:found], sizes

    def _number(self, data: UInt8, first: Int64) -> Int32:
        hashes = np.empty(len(first) - 1, dtype=np.uint64)
        hash_words(data, first, hashes)
        return self._chunks.number(data, first[:-1].astype(np.int32), np.diff(first).astype(np.int32), hashes)

    def _learn(self, data: UInt8, first: Int64, chunk_of: Int32) -> None:
        """Tokenise the chunks that are new."""
        assert self._rule is not None  # asked for chunks only
        known, total = self._known, len(self._chunks)
        if known == total:
            return
        candidates = np.flatnonzero(chunk_of >= known)
        position = candidates[np.unique(chunk_of[candidates], return_index=True)[1]]
        every = pa.StringArray.from_buffers(len(first) - 1, pa.py_buffer(first.astype(np.int32)), pa.py_buffer(data))
        texts = every.take(pa.array(position))
        special = self._rule.whole(texts)
        blank = np.asarray(pc.ends_with(texts, " ").to_numpy(zero_copy_only=False), dtype=bool)  # nothing but blanks
        numbers, lengths = self._chunks_tokenised(texts, np.flatnonzero(~(special | blank)))
        used = int(self._first[known])
        self._first = grown(self._first, total + 1)
        self._special = grown(self._special, total)
        self._units = grown(self._units, used + len(numbers))
        self._first[known + 1 : total + 1] = used + np.cumsum(lengths)
        self._special[known:total] = special
        self._units[used : used + len(numbers)] = numbers
        self._known = total

    def _chunks_tokenised(self, chunks: pa.StringArray, wanted: Int64) -> tuple[Int32, Int64]:
        """As `_tokenised` for the chunks in `wanted` (the others get no units), many of them in one text.

        A text may begin with a chunk without a blank and has only ones with a blank after it.
        """
        assert self._rule is not None
        texts = chunks.take(pa.array(wanted))
        if self._rule.strip:  # the first blank of every text is left out below
            texts = pc.if_else(pc.starts_with(texts, " "), texts, pc.binary_join_element_wise(" ", texts, ""))
        opens = ~np.asarray(pc.starts_with(texts, " ").to_numpy(zero_copy_only=False), dtype=bool)
        order = np.argsort(~opens, kind="stable")
        texts, single = texts.take(pa.array(order)), int(opens.sum())
        breaks = np.append(np.arange(single), np.arange(single, len(order), JOINED_CHUNKS))
        bounds = np.append(breaks, len(order)).astype(np.int32)
        joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(bounds), texts), "")
        sizes = np.asarray(pc.utf8_length(texts).to_numpy(zero_copy_only=False), dtype=np.int64)
        ends = np.cumsum(sizes)
        if self._rule.strip:
            joined = pc.utf8_slice_codeunits(joined, 1)
            ends -= np.searchsorted(breaks, np.arange(len(order)), side="right")
        strings = joined.to_pylist()
        numbers, batch = self._units_of(strings)
        of_unit = np.searchsorted(ends, batch.starts, side="right")
        counts = np.bincount(of_unit, minlength=len(order))
        return self._reordered(numbers, counts, wanted[order], len(chunks))

    @staticmethod
    def _reordered(numbers: Int32, counts: Int64, places: Int64, size: int) -> tuple[Int32, Int64]:
        """Runs of `counts[k]` numbers that belong to `places[k]`, in the order of the places of `size`."""
        lengths = np.zeros(size, dtype=np.int64)
        lengths[places] = counts
        order = np.argsort(np.repeat(places, counts), kind="stable")
        return numbers[order], lengths

    def _tokenised(self, texts: pa.StringArray) -> tuple[Int32, Int64]:
        """As `encode`, each text tokenised whole."""
        if not len(texts):
            return np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int64)
        numbers, batch = self._units_of(texts.to_pylist())
        return numbers, batch.lengths

    def _units_of(self, texts: list[str]) -> tuple[Int32, UnitBatch]:
        vocabulary = self._tokenizer.vocabulary
        batch = units(encode(self._tokenizer.backend, texts, vocabulary), vocabulary, len(texts), self._unit)
        return self.table.number(batch, "".join(texts)), batch
