"""Sums of rows by an int64 key, in bounded memory: a hash table, sorted runs on disk once it is full, their merging.

The table of K columns is one array [slots, 1 + K] of 8-byte numbers: column 0 holds the key plus 1 (0: free slot) in
the bits of an int64, the others the sums. Rows are added in the order in which they come, and the table is written out
at the same row however the rows are cut into blocks, so that the sums do not depend on the blocks either.
"""

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.alignment.compiled import compiled
from tasks.alignment.links import Int64, parts

Float64 = npt.NDArray[np.float64]
Numbers = npt.NDArray[Any]  # int64 or float64
MEMORY = 2**30  # bytes of a table by default
BLOCK_ROWS = 2**18  # rows given at once
_FIRST_SLOTS = 2**12
_FULL = 0.6  # share of the slots in use at which the table is full


@compiled
def _home(key: np.int64, shift: int) -> np.int64:
    """The slot at which the search for `key` begins."""
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return np.int64(mixed >> np.uint64(shift))


@compiled
def _find(keys: Int64, key: np.int64, shift: int) -> np.int64:
    """Slot of `key`, or the free slot where it belongs."""
    slot, wanted = _home(key, shift), key + 1
    found = keys[slot, 0]
    while found != wanted and found != 0:
        slot = (slot + 1) & (len(keys) - 1)
        found = keys[slot, 0]
    return slot


@compiled
def _add(table: tuple[Int64, Numbers], state: tuple[int, int, int], rows: tuple[Int64, Numbers]) -> tuple[int, int]:
    """Add rows until the table is full.

    Args:
        table: the same memory as int64 and as the type of the sums, [slots, 1 + K].
        state: (first row to add, slots in use, slots that may be).
        rows: int64 [R] keys, [R, K] values.

    Returns:
        (rows added or before the first, slots in use).
    """
    (keys, sums), (start, used, room), (row_keys, values) = table, state, rows
    shift = 64 - int(np.log2(len(keys)) + 0.5)
    for row in range(start, len(row_keys)):
        slot = _find(keys, row_keys[row], shift)
        if keys[slot, 0] == 0:
            if used == room:
                return row, used
            keys[slot, 0] = row_keys[row] + 1
            used += 1
        for column in range(values.shape[1]):
            sums[slot, 1 + column] += values[row, column]
    return len(row_keys), used


@compiled
def _count(keys: Int64, state: tuple[int, int, int], row_keys: Int64) -> tuple[int, int]:
    """`_add` of a one in one integer column."""
    start, used, room = state
    shift = 64 - int(np.log2(len(keys)) + 0.5)
    last = len(keys) - 1
    for row in range(start, len(row_keys)):
        slot, wanted = _home(row_keys[row], shift), row_keys[row] + 1
        while keys[slot, 0] != wanted:  # one comparison where the key is found at once, as most are
            if keys[slot, 0] == 0:
                if used == room:
                    return row, used
                keys[slot, 0] = wanted
                used += 1
                break
            slot = (slot + 1) & last
        keys[slot, 1] += 1
    return len(row_keys), used


@compiled
def _move(old: Int64, new: Int64) -> None:
    """Put the rows of a table into a larger, empty one; both as int64."""
    shift = 64 - int(np.log2(len(new)) + 0.5)
    for row in range(len(old)):
        if old[row, 0] != 0:
            slot = _find(new, old[row, 0] - 1, shift)
            for column in range(old.shape[1]):
                new[slot, column] = old[row, column]


@compiled
def _fill_keys(keys: Int64, result: Int64) -> None:
    """The keys in use, in the order of their slots."""
    found = 0
    for slot in range(len(keys)):
        if keys[slot, 0] != 0:
            result[found] = keys[slot, 0] - 1
            found += 1


@compiled
def _fill_sums(table: tuple[Int64, Numbers], wanted: Int64, result: Numbers) -> None:
    """The sums of keys that are in the table: [R, K]."""
    keys, sums = table
    shift = 64 - int(np.log2(len(keys)) + 0.5)
    for row in range(len(wanted)):
        slot = _find(keys, wanted[row], shift)
        for column in range(result.shape[1]):
            result[row, column] = sums[slot, 1 + column]


class KeySums:
    """Adds up rows of K values by a key.

    Memory is bounded by the distinct keys and by `memory`; beyond that, sorted runs go to `folder`. Sums of floating-
    point numbers that need runs depend on `memory` in the last bits; integers never do.
    """

    def __init__(
        self, columns: int, dtype: npt.DTypeLike = np.float64, folder: Path | None = None, memory: int = MEMORY
    ) -> None:
        """An empty table.

        Args:
            columns: K.
            dtype: int64 or float64.
            folder: where runs are written, for this table alone; None: a temporary folder.
            memory: bytes the table may take, growth and sorting included (half a MiB at least).
        """
        self._columns, self._dtype, self._folder = columns, np.dtype(dtype), folder
        self._most_slots = max(_FIRST_SLOTS, 2 ** int(np.log2(memory / (1.6 * 8 * (1 + columns)))))
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._runs: list[int] = []
        self._used = self._room = 0
        self._clear(_FIRST_SLOTS)

    def add(self, keys: Int64, values: Numbers) -> None:
        """Add rows: int64 [R] keys, not negative, and values [R, K]."""
        row = 0
        while row < len(keys):
            row, self._used = _add(self._table, (row, self._used, self._room), (keys, values))
            if row < len(keys):
                self._make_room()

    def count(self, keys: Int64) -> None:
        """Add 1 for each key (one column of int64)."""
        row = 0
        while row < len(keys):
            row, self._used = _count(self._table[0], (row, self._used, self._room), keys)
            if row < len(keys):
                self._make_room()

    def result(self) -> Iterator[tuple[Int64, Numbers]]:
        """Distinct keys, rising, and their sums, in blocks: int64 [R], [R, K]. Nothing may be added afterwards."""
        if not self._runs:
            return self._sorted()
        self._spill()
        return merge_runs([self._read_run(run) for run in range(len(self._runs))])

    def _clear(self, slots: int) -> None:
        cells = np.zeros((slots, 1 + self._columns), dtype=self._dtype)
        self._table = (cells.view(np.int64), cells)
        self._used, self._room = 0, int(slots * _FULL)

    def _make_room(self) -> None:
        """A larger table, or, where it may not grow, an empty one, the rows written as a run."""
        slots = len(self._table[0])
        if slots >= self._most_slots:
            self._spill()
            return
        old, used = self._table[0], self._used
        self._clear(2 * slots)
        _move(old, self._table[0])
        self._used = used

    def _sorted(self) -> Iterator[tuple[Int64, Numbers]]:
        keys = np.empty(self._used, dtype=np.int64)
        _fill_keys(self._table[0], keys)
        keys.sort()
        for start, end in parts(len(keys), BLOCK_ROWS):
            values = np.empty((end - start, self._columns), dtype=self._dtype)
            _fill_sums(self._table, keys[start:end], values)
            yield keys[start:end], values

    def _spill(self) -> None:
        if self._folder is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="langadapt-sums-")
            self._folder = Path(self._temporary.name)
        run = len(self._runs)
        with self._path("keys", run).open("wb") as keys_file, self._path("sums", run).open("wb") as sums_file:
            for keys, values in self._sorted():
                keys_file.write(keys.data)
                sums_file.write(values.data)
        self._runs.append(self._used)
        self._clear(len(self._table[0]))

    def _path(self, what: str, run: int) -> Path:
        assert self._folder is not None  # `_spill` comes first
        return self._folder / f"{what}-{run}.bin"

    def _read_run(self, run: int) -> Iterator[tuple[Int64, Numbers]]:
        columns = self._columns
        for start, end in parts(self._runs[run], BLOCK_ROWS):
            rows = end - start
            keys = np.fromfile(self._path("keys", run), np.int64, rows, offset=8 * start)
            values = np.fromfile(self._path("sums", run), self._dtype, rows * columns, offset=8 * start * columns)
            yield keys, values.reshape(rows, columns)


class _Head:
    """The rows of a run that have been read and not yet given."""

    def __init__(self, run: Iterable[tuple[Int64, Numbers]]) -> None:
        self._blocks = iter(run)
        self.keys: Int64 = np.zeros(0, dtype=np.int64)
        self.values: Numbers = np.zeros((0, 0))

    def fill(self) -> bool:
        """Read on where nothing is left; False at the end of the run."""
        while not len(self.keys):
            block = next(self._blocks, None)
            if block is None:
                return False
            self.keys, self.values = block
        return True

    def take(self, bound: int) -> tuple[Int64, Numbers]:
        """The rows with a key of at most `bound`."""
        end = int(np.searchsorted(self.keys, bound, side="right"))
        taken = self.keys[:end], self.values[:end]
        self.keys, self.values = self.keys[end:], self.values[end:]
        return taken


def merge_runs(runs: Iterable[Iterable[tuple[Int64, Numbers]]]) -> Iterator[tuple[Int64, Numbers]]:
    """The sums by key over runs; equal keys are added in the order of the runs.

    Args:
        runs: each gives blocks of (int64 [R] keys, [R, K] values), its keys rising from first to last.

    Yields:
        Blocks of the same kind, keys rising; memory is that of a block per run.
    """
    heads = [_Head(run) for run in runs]
    while heads := [head for head in heads if head.fill()]:
        bound = min(int(head.keys[-1]) for head in heads)
        taken = [head.take(bound) for head in heads]
        if len(taken) == 1:
            yield taken[0]
            continue
        keys = np.concatenate([block[0] for block in taken])
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        opens = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
        yield keys[opens], np.add.reduceat(np.concatenate([block[1] for block in taken])[order], opens, axis=0)
