"""One pass over all sentence pairs, shard by shard, block by block, in threads."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.alignment.aligner import Int16, Iteration
from tasks.alignment.bitext import Bitext
from tasks.alignment.engine.agreement import Jumps, agree, hmm_expectation, jump_weights, no_jumps
from tasks.alignment.engine.cell_index import first_cells
from tasks.alignment.engine.columns import Column, Resident, release, spill
from tasks.alignment.engine.diagonal import prior_tables
from tasks.alignment.engine.expectation import (
    FIGURE_SCALE,
    Float32,
    Float64,
    add_cells,
    add_nulls,
    expectation,
    rounding_constant,
)
from tasks.alignment.engine.expected import Counted
from tasks.alignment.engine.maximisation import column_sums
from tasks.alignment.engine.parallel import Threads, split
from tasks.alignment.engine.settings import Kind
from tasks.alignment.engine.shards import (
    CELL_BYTES,
    PARAMETER_BYTES,
    TOKEN_BYTES,
    Resources,
    Shard,
    Shards,
)
from tasks.alignment.links import Int64

Cell = npt.NDArray[np.uint32]
BLOCK_CELLS = 2**20  # cells whose posteriors wait between the two kernels: they stay in the processor's cache
COUNT_BYTES = 16  # of a parameter, both directions
MOST_COPIES = 4  # of the counts: joining many of them would take longer than the threads gain


@dataclass(frozen=True)
class Model:
    """A model's parameters during training.

    Attributes:
        diagonal: diagonal prior or uniform.
        p_null: prior of NULL.
        tensions: of the forward and of the reverse direction.
        translation: by shard, float32 [parameters, 2]: p(target | source), p(source | target).
        null_target: float32 [target words], p(target word | NULL).
        null_source: float32 [source words].
        jumps: jumps of the best links of the pass before (agreement only).
    """

    diagonal: bool
    p_null: float
    tensions: tuple[float, float]
    translation: tuple[Column, ...]
    null_target: Float32
    null_source: Float32
    jumps: Jumps = field(default_factory=no_jumps)


@dataclass(frozen=True)
class Pass:
    """What a pass is to do.

    Attributes:
        words: all sentence pairs.
        shards: their shards.
        model: parameters.
        keep_best: keep the best partners.
        count: add up posteriors.
        counted: by what, if not by the model's own parameters.
        resources: for files.
        kind: which posteriors.
    """

    words: Bitext
    shards: Shards
    model: Model
    keep_best: bool
    count: bool
    counted: Counted | None
    resources: Resources
    kind: Kind = "plain"


@dataclass(frozen=True)
class PassResult:
    """What a pass gives.

    Attributes:
        iterations: figures of the forward and of the reverse direction.
        counts: by shard, float64 [parameters, 2]; empty if nothing was counted by the model's own parameters.
        target_totals: float64 [target words], sums of the reverse counts.
        nulls: float64 [target words] and [source words], counts of NULL.
        best: int16 [target tokens] and [source tokens], empty if not kept.
        counted: shards and counts of `Pass.counted`.
        jumps: of the best links (agreement only).
    """

    iterations: tuple[Iteration, Iteration]
    counts: tuple[Column, ...]
    target_totals: Float64
    nulls: tuple[Float64, Float64]
    best: tuple[Int16, Int16]
    counted: tuple[Shards, tuple[Column, ...]] | None
    jumps: Jumps


def run_pass(job: Pass, threads: Threads, report: Callable[[float], None]) -> PassResult:
    """Run the pass `job`; `report` is called with the share of the pairs done."""
    words = job.words
    nulls = np.zeros(words.target_words), np.zeros(words.source_words)
    totals = np.zeros(words.target_words)
    sums = np.zeros(6, dtype=np.int64)
    best, jumps = _BestFiles(job), no_jumps()
    counting = job.shards
    if job.counted is not None and not job.counted.same_as(words):
        counting = job.counted.shards(job.shards, job.resources, threads)
    columns: list[Column] = []
    for number, shard in enumerate(job.shards.shards):
        into = counting.shards[number]
        counts = np.zeros((into.parameters if job.count else 0, 2))
        work = _ShardPass(job, shard, into, number, threads)
        sums += work.run(counts, nulls, report)
        jumps += work.jumps
        best.append(work.best)
        if job.count and counting is job.shards:
            _add_columns(shard, counts, totals, threads)
        if job.count:
            columns.append(_keep(counts, job, number))
        release(words.source, words.target)
    figures = sums / FIGURE_SCALE
    return PassResult(
        iterations=(
            _figures(figures[:3], len(words.target), job.model.tensions[0]),
            _figures(figures[3:], len(words.source), job.model.tensions[1]),
        ),
        counts=tuple(columns) if counting is job.shards else (),
        target_totals=totals,
        nulls=nulls,
        best=best.arrays(),
        counted=(counting, tuple(columns)) if job.counted is not None else None,
        jumps=jumps,
    )


def _figures(sums: npt.NDArray[np.float64], words: int, tension: float) -> Iteration:
    means = sums / words
    return Iteration(
        log_likelihood=float(sums[0]),
        perplexity=float(np.exp(-means[0])),
        tension=tension,
        p_null=float(means[1]),
        feature=float(means[2]),
    )


def _keep(counts: Float64, job: Pass, number: int) -> Column:
    if job.shards.resident:
        return Resident(counts)
    folder = job.resources.folder / "counts"
    folder.mkdir(exist_ok=True)
    return spill(counts, folder / f"{number:05d}.counts")


def _add_columns(shard: Shard, counts: Float64, totals: Float64, threads: Threads) -> None:
    """Add the reverse counts to the totals of the target words."""
    target = shard.target.read(0, shard.parameters)
    cuts = np.linspace(0, len(target), threads.count + 1).astype(np.int64).tolist()
    parts = [np.zeros_like(totals) for _ in range(threads.count)]
    calls = [(target[a:b], counts[a:b], part) for (a, b), part in zip(pairwise(cuts), parts, strict=True)]
    threads.run(column_sums, calls)
    for part in parts:
        totals += part


class _BestFiles:
    """Best partners of all shards, one after the other: in memory for one shard, else in files."""

    def __init__(self, job: Pass) -> None:
        self._job = job
        self._parts: list[tuple[Int16, Int16]] = []
        self._paths = [job.resources.folder / f"best.{name}.int16" for name in ("forward", "reverse")]
        for path in self._paths:
            path.unlink(missing_ok=True)

    def append(self, best: tuple[Int16, Int16]) -> None:
        if not self._job.keep_best:
            return
        if self._job.shards.resident:
            self._parts.append(best)
            return
        for path, array in zip(self._paths, best, strict=True):
            with path.open("ab") as file:
                file.write(np.ascontiguousarray(array).data)

    def arrays(self) -> tuple[Int16, Int16]:
        if not self._job.keep_best:
            return np.zeros(0, dtype=np.int16), np.zeros(0, dtype=np.int16)
        if self._parts:
            return self._parts[0]
        first, second = (np.asarray(np.memmap(path, dtype=np.int16, mode="c")).view(np.ndarray) for path in self._paths)
        return first, second


class _ShardPass:
    """One shard's part of a pass."""

    def __init__(self, job: Pass, shard: Shard, into: Shard, number: int, threads: Threads) -> None:
        self._job, self._shard, self._into, self._threads = job, shard, into, threads
        self._part = part = job.words.part(shard.start, shard.end)
        self._cells = first_cells(part)
        self._probabilities = (
            job.model.translation[number].read(0, shard.parameters),
            job.model.null_target,
            job.model.null_source,
        )
        self.best = (np.empty(len(part.target), dtype=np.int16), np.empty(len(part.source), dtype=np.int16))
        self.jumps = no_jumps()
        self._weights = jump_weights(job.model.jumps)
        self._nulls = tuple(np.zeros(len(side), dtype=np.float32) for side in (part.target, part.source))
        self._inverses = tuple(np.zeros(len(side), dtype=np.float32) for side in (part.target, part.source))
        self._rounding = rounding_constant(max(len(job.words.target), len(job.words.source)))
        lengths = np.unique(np.concatenate([np.diff(part.source_offsets), np.diff(part.target_offsets)]))
        tensions = job.model.tensions
        self._tables = tuple(
            prior_tables(lengths if job.model.diagonal else lengths[:0], tension).arrays() for tension in tensions
        )
        self._copies = _copies(threads.count, self._spare(), into.parameters) if job.count else 1
        self._owner = self._owners(threads.count // self._copies)

    def _spare(self) -> int:
        """Bytes that the pass leaves of the room for a shard."""
        tokens = len(self._part.source) + len(self._part.target)
        cells = int(self._cells[-1]) if isinstance(self._shard.cell, Resident) else 0
        parameters = self._shard.parameters + (0 if self._into is self._shard else self._into.parameters)
        needed = parameters * PARAMETER_BYTES + tokens * TOKEN_BYTES + cells * CELL_BYTES
        return self._job.shards.room - needed

    def _owners(self, count: int) -> npt.NDArray[np.uint8]:
        part = self._part
        weights = np.zeros(part.source_words, dtype=np.int64)
        if count > 1:
            row_lengths = np.repeat(np.diff(part.target_offsets), np.diff(part.source_offsets))
            weights = np.bincount(part.source, row_lengths, part.source_words).astype(np.int64)
        return owners(weights, count)

    def run(self, counts: Float64, nulls: tuple[Float64, Float64], report: Callable[[float], None]) -> Int64:
        """Fill `best`, add to `counts` and `nulls`; returns the six sums."""
        job, part = self._job, self._part
        sums = np.zeros(6, dtype=np.int64)
        blocks = list(self._blocks())
        largest = max(int(self._cells[b] - self._cells[a]) for a, b in blocks)
        joints = np.empty(largest, dtype=np.float32), np.empty(largest, dtype=np.float32)
        copies = [counts, *(np.zeros_like(counts) for _ in range(self._copies - 1))]
        for a, b in blocks:
            base, end = int(self._cells[a]), int(self._cells[b])
            cell = self._shard.cell.read(base, end)
            sums += self._posteriors((a, b), cell, base, joints)
            if job.count:
                into = cell if self._into is self._shard else self._into.cell.read(base, end)
                self._add((a, b), into, base, joints, copies)
            report((self._shard.start + b) / len(job.words))
        join(copies, self._threads)
        add_nulls(part.target, self._nulls[0], self._rounding, nulls[0])
        add_nulls(part.source, self._nulls[1], self._rounding, nulls[1])
        return sums

    def _blocks(self) -> Iterator[tuple[int, int]]:
        start, pairs = 0, len(self._part)
        while start < pairs:
            end = int(np.searchsorted(self._cells, self._cells[start] + BLOCK_CELLS, side="right")) - 1
            end = max(end, start + 1)
            yield start, end
            start = end

    def _posteriors(self, block: tuple[int, int], cell: Cell, base: int, joints: tuple[Float32, Float32]) -> Int64:
        """Joint probabilities of a block of pairs into `joints`; returns the six sums."""
        part, model, kind = self._part, self._job.model, self._job.kind
        ranges = self._ranges(block, self._threads.count)
        sides = (part.source, part.source_offsets, part.target, part.target_offsets)
        cells = (cell, self._cells, base)
        results = (joints, self._inverses, self._nulls, self.best)
        jumps = [no_jumps() for _ in ranges]
        if kind == "hmm":
            calls: list[tuple[Any, ...]] = [
                (span, sides, cells, self._probabilities, self._weights, *results, own)
                for span, own in zip(ranges, jumps, strict=True)
            ]
            sums = self._threads.run(hmm_expectation, calls)
        else:
            decode = self._job.keep_best and kind == "plain"
            prior = (model.diagonal, model.p_null, *model.tensions, decode)
            calls = [(span, sides, cells, self._probabilities, prior, self._tables, *results) for span in ranges]
            sums = self._threads.run(expectation, calls)
        if kind == "agreement":
            offsets = (part.source_offsets, part.target_offsets, self._cells, base)
            calls = [
                (span, offsets, joints, self._inverses, self.best, own) for span, own in zip(ranges, jumps, strict=True)
            ]
            self._threads.run(agree, calls)
        for own in jumps:
            self.jumps += own
        total: Int64 = np.array(sums, dtype=np.int64).sum(axis=0)
        return total

    def _ranges(self, block: tuple[int, int], count: int) -> list[tuple[int, int]]:
        """At most `count` ranges of the block's pairs with about equally many cells."""
        cuts = block[0] + split(np.diff(self._cells[block[0] : block[1] + 1]), count)
        return [(a, b) for a, b in pairwise(cuts.tolist()) if a < b]

    def _add(
        self, block: tuple[int, int], cell: Cell, base: int, joints: tuple[Float32, Float32], copies: list[Float64]
    ) -> None:
        """Add a block's posteriors: every range of pairs to its own copy of the counts, there every owner its words."""
        part, owning = self._part, self._threads.count // self._copies
        calls = [
            (
                span,
                (part.source, part.source_offsets, part.target_offsets),
                (cell, self._cells, base),
                (*joints, *self._inverses),
                (self._owner, mine, owning == 1),
                self._rounding,
                counts,
            )
            for span, counts in zip(self._ranges(block, self._copies), copies, strict=False)
            for mine in range(owning)
        ]
        self._threads.run(add_cells, calls)


def _copies(threads: int, spare: int, parameters: int) -> int:
    """How many copies of the counts the threads share: a divisor of `threads` for which `spare` bytes are enough."""
    most = min(MOST_COPIES, 1 + max(spare, 0) // max(COUNT_BYTES * parameters, 1))
    return max(copies for copies in range(1, threads + 1) if threads % copies == 0 and copies <= most)


def join(copies: Sequence[Float64], threads: Threads) -> None:
    """Add all other copies of the counts to the first; the sums are exact, so their order does not matter."""
    cuts = np.linspace(0, len(copies[0]), threads.count + 1).astype(np.int64).tolist()

    def add(start: int, end: int) -> None:
        for copy in copies[1:]:
            copies[0][start:end] += copy[start:end]

    if len(copies) > 1:
        threads.run(add, list(pairwise(cuts)))


def owners(weights: Int64, count: int) -> npt.NDArray[np.uint8]:
    """A division of words among `count` owners with about equal weights: uint8 [words].

    Every owner has neighbouring words, so that no two of them write to the same cache lines.
    """
    return np.repeat(np.arange(count, dtype=np.uint8), np.diff(split(weights, count)))
