"""Division of the text into shards that fit into the memory budget, and their cell indices.

One shard stays in memory. Of several shards everything is in files, and one of them is in memory at a time.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tasks.alignment.bitext import Bitext
from tasks.alignment.engine.cell_index import CellPlan, fill_cells, first_cells, plan_cells
from tasks.alignment.engine.columns import Array, Column, Resident, Spilled, release, spill
from tasks.alignment.engine.parallel import Threads
from tasks.alignment.links import Int32, Int64

Bools = npt.NDArray[np.bool_]

PROGRAM_BYTES = 400 * 2**20  # the interpreter, its libraries and block buffers
LEAST_BYTES = 64 * 2**20
CELL_BYTES = 4
PARAMETER_BYTES = 28  # target word, two counts, two probabilities
TOKEN_BYTES = 24
PAIR_BYTES = 40  # boundaries, first cells and corpus of every pair: all of them stay in memory
RESIDENT_SHARE = 8  # the cells stay in memory where they take at most this part of it; they are read in order anyway


@dataclass(frozen=True)
class Resources:
    """What the aligner may use.

    Attributes:
        folder: for shards and checkpoints; survives a kill.
        threads: threads, 0 for all processors.
        memory: bytes, of the whole process.
    """

    folder: Path
    threads: int = 0
    memory: int = 2**32


@dataclass(frozen=True)
class Shard:
    """Consecutive sentence pairs and the index of their cells.

    Attributes:
        start: first pair.
        end: last pair, exclusive.
        parameters: number of word pairs.
        first: int64 [source words + 1], first parameter of each source word.
        target: int32 [parameters], target word.
        cell: uint32 [cells], parameter of each cell.
    """

    start: int
    end: int
    parameters: int
    first: Column
    target: Column
    cell: Column


@dataclass(frozen=True)
class Shards:
    """All shards of a text.

    Attributes:
        shards: in the order of the pairs.
        source_words: size of the source vocabulary.
        target_words: size of the target vocabulary.
        row_sizes: int64 [source words], parameters of each source word, summed over the shards.
        room: bytes for the shard in memory.
    """

    shards: tuple[Shard, ...]
    source_words: int
    target_words: int
    row_sizes: Int64
    room: int

    @property
    def resident(self) -> bool:
        """Whether everything but perhaps the cells is in memory."""
        return len(self.shards) == 1

    def groups(self) -> Iterator[tuple[int, int]]:
        """Ranges of source words whose parameters fit into memory together."""
        sums = np.cumsum(self.row_sizes)
        most = int(sums[-1]) if self.resident else self.room // (3 * PARAMETER_BYTES)
        start = 0
        while start < self.source_words:
            before = int(sums[start - 1]) if start else 0
            end = int(np.searchsorted(sums, before + most, side="right"))
            yield start, max(start + 1, end)
            start = max(start + 1, end)

    def rows(self, start: int, end: int) -> tuple[Int64, list[tuple[int, int]]]:
        """Where the parameters of the source words `start` to `end` stand.

        Returns:
            (int64 [shards, end - start + 1], boundaries of the rows when the shards' parameters stand one shard after
            the other; first and last parameter in each shard).
        """
        firsts, spans, at = [], [], 0
        for shard in self.shards:
            first = shard.first.read(start, end + 1)
            spans.append((int(first[0]), int(first[-1])))
            firsts.append(first - first[0] + at)
            at += spans[-1][1] - spans[-1][0]
        return np.stack(firsts), spans

    def read(self, columns: Sequence[Column], spans: list[tuple[int, int]]) -> Array:
        """The rows `spans` of one column by shard, shard after shard; a view where there is one in memory."""
        parts = [column.read(*span) for column, span in zip(columns, spans, strict=True)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def targets(self, spans: list[tuple[int, int]]) -> Int32:
        """Target words of the parameters `spans`, shard after shard: int32."""
        return self.read([shard.target for shard in self.shards], spans)


def distinct_pairs(start: int, firsts: Int64, target: Int32, kept: Bools | None = None) -> tuple[Int64, Int64]:
    """The distinct word pairs of some rows, ordered by source word, then target word.

    Args:
        start: source word of the first row.
        firsts: int64 [shards, rows + 1], as `Shards.rows` gives them.
        target: int32 [parameters], as `Shards.targets` gives them.
        kept: bool [parameters], those that are wanted; all by default.

    Returns:
        (int64 source words, int64 first place of every pair in `target`).
    """
    words = np.arange(start, start + firsts.shape[1] - 1)
    source = np.concatenate([np.repeat(words, np.diff(first)) for first in firsts])
    places = np.arange(len(target)) if kept is None else np.flatnonzero(kept)
    order = places[np.lexsort((target[places], source[places]))]
    new = np.ones(len(order), dtype=bool)
    new[1:] = (np.diff(source[order]) != 0) | (np.diff(target[order]) != 0)
    return source[order][new], order[new]


def budget(memory: int) -> int:
    """Bytes for shards of a process that may use `memory` bytes."""
    return max(memory - PROGRAM_BYTES, LEAST_BYTES)


def make_shards(
    bitext: Bitext,
    resources: Resources,
    threads: Threads,
    name: str = "shards",
    report: Callable[[float], None] = lambda share: None,
) -> Shards:
    """Index the cells of `bitext`, in as few shards as the memory allows.

    Args:
        bitext: sentence pairs.
        resources: memory and folder; shards found in the folder `name` of a run before are used again.
        threads: to work in.
        name: of the shards' folder.
        report: called with the share of the pairs done.
    """
    room = max(budget(resources.memory) - PAIR_BYTES * len(bitext), LEAST_BYTES)
    cells = first_cells(bitext)
    tokens = len(bitext.source) + len(bitext.target)
    if (CELL_BYTES + 1) * int(cells[-1]) + TOKEN_BYTES * tokens <= room:
        plan = plan_cells(bitext, threads)
        needed = PARAMETER_BYTES * int(plan.first[-1]) + TOKEN_BYTES * tokens
        if needed <= room:
            report(0.5)
            whole = CELL_BYTES * plan.cells <= min(room - needed, room // RESIDENT_SHARE)
            return _single(bitext, plan, threads, room, None if whole else _folder(resources, name))
    folder = _folder(resources, name)
    shards, row_sizes = _read(folder, bitext) or _spilled(bitext, cells, room, threads, folder, report)
    return Shards(shards, bitext.source_words, bitext.target_words, row_sizes, room)


def _folder(resources: Resources, name: str) -> Path:
    folder = resources.folder / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _single(bitext: Bitext, plan: CellPlan, threads: Threads, room: int, folder: Path | None) -> Shards:
    index = fill_cells(bitext, plan, threads)
    cell: Column = Resident(index.cell) if folder is None else spill(index.cell, folder / "cells.int32")
    parameters = len(index.target)
    shard = Shard(0, len(bitext), parameters, Resident(index.first), Resident(index.target), cell)
    return Shards((shard,), bitext.source_words, bitext.target_words, np.diff(index.first), room)


def _spilled(
    bitext: Bitext, cells: Int64, room: int, threads: Threads, folder: Path, report: Callable[[float], None]
) -> tuple[tuple[Shard, ...], Int64]:
    """Shard after shard: as many pairs as fit, by cells first, then by the parameters counted."""
    most_cells = room // (2 * CELL_BYTES)
    row_sizes = np.zeros(bitext.source_words, dtype=np.int64)
    shards: list[Shard] = []
    start = 0
    while start < len(bitext):
        while True:
            end = int(np.searchsorted(cells, cells[start] + most_cells, side="right")) - 1
            end = min(max(end, start + 1), len(bitext))
            part = bitext.part(start, end)
            plan = plan_cells(part, threads)
            parameters = int(plan.first[-1])
            if PARAMETER_BYTES * parameters <= room or end == start + 1:
                break
            most_cells = int(most_cells * min(0.9, 0.95 * room / (PARAMETER_BYTES * parameters)))
        shards.append(_write(folder, len(shards), (start, end), part, plan, threads))
        row_sizes += np.diff(plan.first)
        release(bitext.source, bitext.target)
        report(end / len(bitext))
        start = end
    spill(row_sizes, folder / "row_sizes.int64")
    ends = [(shard.start, shard.end, shard.parameters) for shard in shards]
    (folder / "shards.json").write_text(json.dumps(ends))
    return tuple(shards), row_sizes


def _write(folder: Path, number: int, pairs: tuple[int, int], part: Bitext, plan: CellPlan, threads: Threads) -> Shard:
    index = fill_cells(part, plan, threads)
    paths = _paths(folder, number)
    arrays: tuple[Array, ...] = (index.first, index.target, index.cell)
    columns = [spill(array, path) for array, path in zip(arrays, paths, strict=True)]
    return Shard(*pairs, len(index.target), *columns)


def _paths(folder: Path, number: int) -> tuple[Path, Path, Path]:
    return tuple(folder / f"{number:05d}.{name}" for name in ("first", "target", "cell"))  # type: ignore[return-value]  # three


def _read(folder: Path, bitext: Bitext) -> tuple[tuple[Shard, ...], Int64] | None:
    """The shards written by a run before, or None."""
    listing = folder / "shards.json"
    if not listing.exists():
        return None
    kinds: tuple[npt.DTypeLike, ...] = (np.int64, np.int32, np.uint32)
    shards = []
    for number, (start, end, parameters) in enumerate(json.loads(listing.read_text())):
        columns = [Spilled(path, kind) for path, kind in zip(_paths(folder, number), kinds, strict=True)]
        shards.append(Shard(start, end, parameters, *columns))
    sizes = Spilled(folder / "row_sizes.int64", np.int64).read(0, bitext.source_words)
    return tuple(shards), sizes


def index_parts(bitext: Bitext, like: Shards, resources: Resources, threads: Threads, name: str) -> Shards:
    """Index the cells of `bitext`, the same pairs over another vocabulary, in the shards of `like`."""
    if like.resident:
        return _single(bitext, plan_cells(bitext, threads), threads, like.room, None)
    folder = _folder(resources, name)
    row_sizes = np.zeros(bitext.source_words, dtype=np.int64)
    shards = []
    for number, shard in enumerate(like.shards):
        part = bitext.part(shard.start, shard.end)
        plan = plan_cells(part, threads)
        row_sizes += np.diff(plan.first)
        shards.append(_write(folder, number, (shard.start, shard.end), part, plan, threads))
    return Shards(tuple(shards), bitext.source_words, bitext.target_words, row_sizes, like.room)
