"""Numbers for distinct units, given in the order of first occurrence: an open-addressing hash table in numpy arrays."""

import numpy as np
import pyarrow as pa

from tasks.alignment.compiled import compiled
from tasks.alignment.growing import grown
from tasks.alignment.links import Int32, Int64
from tasks.alignment.units import UnitBatch

_FIRST_SLOTS = 2**16


@compiled
def _hash(sequence: Int32, start: int, end: int) -> np.int64:
    """64-bit FNV-1a over token ids, mixed at the end."""
    value = np.uint64(14695981039346656037)
    for k in range(start, end):
        value = (value ^ np.uint64(sequence[k])) * np.uint64(1099511628211)
    value ^= value >> np.uint64(32)
    value *= np.uint64(0x9E3779B97F4A7C15)
    return np.int64(value >> np.uint64(1))


@compiled
def _intern(
    sequences: tuple[Int32, Int64],
    slots: Int32,
    known: tuple[Int32, Int64],
    count: int,
    numbers: Int32,
) -> int:
    """Number the sequences, adding the unknown ones to `known` and `slots`; returns the new number of known ones.

    Args:
        sequences: (int32 ids, int64 [U + 1] boundaries).
        slots: int32, a power of 2 long, number in each slot or -1; at most half of it is in use afterwards.
        known: (int32 ids, int64 boundaries) of the sequences known, with room for all of `sequences`.
        count: sequences known.
        numbers: int32 [U], filled.
    """
    ids, first = sequences
    known_ids, known_first = known
    mask = len(slots) - 1
    for u in range(len(first) - 1):
        start, end = first[u], first[u + 1]
        slot = _hash(ids, start, end) & mask
        while True:
            number = slots[slot]
            if number < 0:
                number = count
                slots[slot] = number
                base = known_first[count]
                for k in range(end - start):
                    known_ids[base + k] = ids[start + k]
                count += 1
                known_first[count] = base + end - start
                break
            base = known_first[number]
            if known_first[number + 1] - base == end - start:
                equal = True
                for k in range(end - start):
                    if known_ids[base + k] != ids[start + k]:
                        equal = False
                        break
                if equal:
                    break
            slot = (slot + 1) & mask
        numbers[u] = number
    return count


@compiled
def _fill_slots(ids: Int32, first: Int64, count: int, slots: Int32) -> None:
    mask = len(slots) - 1
    for number in range(count):
        slot = _hash(ids, first[number], first[number + 1]) & mask
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = number


class UnitTable:
    """Distinct units seen so far: their token ids and texts. Memory grows with the vocabulary, not with the text."""

    def __init__(self) -> None:
        self._count = 0
        self._ids = np.zeros(_FIRST_SLOTS, dtype=np.int32)
        self._first = np.zeros(_FIRST_SLOTS, dtype=np.int64)
        self._slots = np.full(_FIRST_SLOTS, -1, dtype=np.int32)
        self._texts: list[pa.Array] = []

    def __len__(self) -> int:
        return self._count

    def number(self, batch: UnitBatch, text: str) -> Int32:
        """The numbers of the batch's units: int32 [U]; new units are added.

        Args:
            batch: units.
            text: concatenation of the batch's sentences (a unit keeps the text of its first occurrence).
        """
        found = len(batch.first) - 1
        self._ids = grown(self._ids, int(self._first[self._count]) + len(batch.token_ids))
        self._first = grown(self._first, self._count + found + 1)
        if 2 * (self._count + found) > len(self._slots):
            size = 2 ** int(np.ceil(np.log2(4 * (self._count + found))))
            self._slots = np.full(size, -1, dtype=np.int32)
            _fill_slots(self._ids, self._first, self._count, self._slots)
        numbers = np.empty(found, dtype=np.int32)
        before = self._count
        self._count = _intern(
            (batch.token_ids, batch.first), self._slots, (self._ids, self._first), self._count, numbers
        )
        candidates = np.flatnonzero(numbers >= before)
        position = candidates[np.unique(numbers[candidates], return_index=True)[1]]
        starts, ends = batch.starts[position].tolist(), batch.ends[position].tolist()
        self._texts.append(pa.array([text[a:b] for a, b in zip(starts, ends, strict=True)], type=pa.string()))
        return numbers

    def texts(self) -> pa.StringArray:
        """Text of every unit, by number."""
        return pa.concat_arrays(self._texts) if self._texts else pa.array([], type=pa.string())

    def token_ids(self) -> pa.ListArray:
        """Token ids of every unit, by number: list<int32>."""
        first = self._first[: self._count + 1].astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(first), pa.array(self._ids[: first[-1]]))
