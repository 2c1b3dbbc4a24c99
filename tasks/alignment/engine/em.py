"""Training of the diagonal model (Dyer et al. 2013) and of IBM Model 1 by expectation maximisation.

The passes are those of the published fast_align: the first starts from uniform translation probabilities, the tension
is fitted after every pass but the first and the last, and the last pass decodes. On top of that the last pass also sums
its posteriors: expected counts are those of pass `iterations`, under the same parameters that choose the links. (The
published trans-tokenization code takes pass 6 of 7: the counts of `iterations=6` here.)

The result is the same down to the last bit for any number of threads and any memory.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from tasks.alignment.aligner import Aligned, DirectionName, Float64, Iteration, Report, WordPairs, no_report
from tasks.alignment.bitext import Bitext
from tasks.alignment.engine.checkpoint import Checkpoints, fingerprint
from tasks.alignment.engine.columns import Array, Column, Resident, Spilled
from tasks.alignment.engine.diagonal import fit_tension
from tasks.alignment.engine.expected import Counted, expected_blocks
from tasks.alignment.engine.maximisation import add_up, degrees, normalisers, probabilities
from tasks.alignment.engine.parallel import Threads, split
from tasks.alignment.engine.passes import Model, Pass, PassResult, run_pass
from tasks.alignment.engine.settings import ModelSettings
from tasks.alignment.engine.shards import Resources, Shards, make_shards
from tasks.alignment.links import Int32, Int64
from tasks.alignment.machine import thread_count

UNIFORM_START = 1e-9  # every translation probability of the first pass
CHECKPOINT_SECONDS = 60.0  # a checkpoint of a text that fits into memory is written when this time has passed


@dataclass(frozen=True, kw_only=True)
class Trained(Aligned):
    """A trained model with the links of its last pass.

    Attributes:
        model: translation probabilities and prior that the last pass used.
        shards: whose parameters they are.
        null_counts: float64 [target words] and [source words], posterior sums of NULL in the last pass.
    """

    model: Model
    shards: Shards
    null_counts: tuple[Float64, Float64]


def train(
    words: Bitext,
    settings: ModelSettings,
    resources: Resources,
    directions: Sequence[DirectionName] = ("forward", "reverse"),
    counted: Counted | None = None,
    report: Report = no_report,
) -> Trained:
    """Train and decode.

    Args:
        words: the sentence pairs; every side of every pair has at least one word.
        settings: the model.
        resources: folder, threads and memory. A run before on the same text with the same settings that was cut off is
            taken up after its last checkpoint.
        directions: forward (the target side generated given the source side), reverse, or both in one pass.
        counted: by what the last pass counts; None: no expected counts.
        report: called with the iterations done.
    """
    with Threads(thread_count(resources.threads)) as threads:
        return _Training(words, settings, resources, tuple(directions), threads, report).run(counted)


class _Training:
    """One training run."""

    def __init__(
        self,
        words: Bitext,
        settings: ModelSettings,
        resources: Resources,
        directions: tuple[DirectionName, ...],
        threads: Threads,
        report: Report,
    ) -> None:
        self._words, self._settings, self._resources, self._threads = words, settings, resources, threads
        self._directions, self._report = directions, report
        self._checkpoints = Checkpoints(resources.folder / "em", fingerprint(words, settings, directions))
        self._checkpoints.clear_others(resources.folder)
        report(0, settings.iterations, "index")
        self._shards = make_shards(words, resources, threads)
        self._lengths = _shapes(words)
        frequencies = (
            np.bincount(words.target, minlength=words.target_words),
            np.bincount(words.source, minlength=words.source_words),
        )
        self._occurring = (frequencies[0] > 0, frequencies[1] > 0)
        self._degrees = self._distinct() if settings.alpha > 0 else _no_degrees(words)

    def run(self, counted: Counted | None) -> Trained:
        """All passes."""
        settings = self._settings
        model, figures = self._start()
        written = time.monotonic()
        while True:
            number = len(figures[0]) + 1
            last = number == settings.iterations
            result = self._expectation(model, number, counted if last else None, last)
            for place, iteration in enumerate(result.iterations):
                figures[place].append(iteration)
            self._report(number, settings.iterations, self._message(figures))
            if last:
                return trained_of(model, self._shards, figures, result, counted, self._directions)
            model = self._maximisation(result, self._tensions(model, result, number), number)
            if not self._shards.resident or time.monotonic() - written > CHECKPOINT_SECONDS:
                self._checkpoints.save(model, figures)
                written = time.monotonic()

    def _start(self) -> tuple[Model, tuple[list[Iteration], list[Iteration]]]:
        found = self._checkpoints.load(self._settings, [shard.parameters for shard in self._shards.shards])
        if found is not None:
            return found
        start = np.float32(UNIFORM_START)
        columns: tuple[Column, ...] = tuple(_Constant(start) for _ in self._shards.shards)
        tension = self._settings.tension
        nulls = tuple(np.full(len(words), start) for words in self._occurring)
        return Model(self._settings.diagonal, self._settings.p_null, (tension, tension), columns, *nulls), ([], [])

    def _message(self, figures: tuple[list[Iteration], list[Iteration]]) -> str:
        parts = []
        for name, rows in zip(("forward", "reverse"), figures, strict=True):
            if name in self._directions:
                row = rows[-1]
                parts.append(
                    f"{name}: log-likelihood {row.log_likelihood:.6g}, perplexity {row.perplexity:.6g}, "
                    f"tension {row.tension:.4g}"
                )
        return "; ".join(parts)

    def _expectation(self, model: Model, number: int, counted: Counted | None, last: bool) -> PassResult:
        total = self._settings.iterations
        return run_pass(
            Pass(
                words=self._words,
                shards=self._shards,
                model=model,
                keep_best=last,
                count=not last or counted is not None,
                counted=counted,
                resources=self._resources,
                kind=self._settings.kind(number),
            ),
            self._threads,
            lambda share: self._report(number - 1 + share, total, f"pass {number}"),
        )

    def _tensions(self, model: Model, result: PassResult, number: int) -> tuple[float, float]:
        """The tensions of the next pass."""
        settings = self._settings
        fitting = settings.diagonal and settings.optimize_tension and settings.kind(number) != "hmm"
        if not fitting or number == 1:
            return model.tensions
        source, target, counts = self._lengths
        fitted = []
        for place, shapes in enumerate(((target, source, counts), (source, target, counts))):
            name: DirectionName = "reverse" if place else "forward"
            tension = model.tensions[place]
            if name in self._directions or settings.plus:
                tension = fit_tension(shapes, result.iterations[place].feature, tension, self._threads)[-1]
            fitted.append(tension)
        return fitted[0], fitted[1]

    def _distinct(self) -> tuple[Int64, Int64]:
        """Distinct partners of every source word and of every target word."""
        rows = np.zeros(self._words.source_words, dtype=np.int64)
        columns = np.zeros(self._words.target_words, dtype=np.int64)
        seen = np.full(self._words.target_words, -1, dtype=np.int32)
        for start, end in self._shards.groups():
            firsts, spans = self._shards.rows(start, end)
            target = self._shards.targets(spans)
            degrees((start, end), firsts, target, seen, rows, columns)
        return rows, columns

    def _maximisation(self, result: PassResult, tensions: tuple[float, float], number: int) -> Model:
        """New translation probabilities."""
        alpha = self._settings.alpha
        columns = normalisers(result.target_totals, self._degrees[1], alpha)
        resident = self._shards.resident
        paths = [self._checkpoints.column(number, k) for k in range(len(self._shards.shards))]
        writers = [_Writer(None if resident else path) for path in paths]
        for start, end in self._shards.groups():
            firsts, spans = self._shards.rows(start, end)
            target = self._shards.targets(spans)
            counts = self._shards.read(result.counts, spans)
            values = np.empty((len(target), 2), dtype=np.float32)
            cuts = split(np.diff(firsts, axis=1).sum(axis=0), self._threads.count)
            calls = [
                (
                    firsts[:, a : b + 1],
                    target,
                    counts,
                    (self._degrees[0][start + a : start + b], columns),
                    alpha,
                    values,
                )
                for a, b in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)
            ]
            self._threads.run(_rows, calls)
            at = 0
            for writer, (a, b) in zip(writers, spans, strict=True):
                writer.write(values[at : at + b - a])
                at += b - a
        nulls = [
            _null_probabilities(count, occurring, alpha)
            for count, occurring in zip(result.nulls, self._occurring, strict=True)
        ]
        done = tuple(writer.done() for writer in writers)
        return Model(self._settings.diagonal, self._settings.p_null, tensions, done, nulls[0], nulls[1], result.jumps)


def trained_of(
    model: Model,
    shards: Shards,
    figures: tuple[list[Iteration], list[Iteration]],
    result: PassResult,
    counted: Counted | None,
    directions: tuple[DirectionName, ...],
) -> Trained:
    """The result of a training whose last pass was `result`."""
    names: tuple[DirectionName, ...] = ("forward", "reverse")
    expected: Callable[[], Iterator[WordPairs]] | None = None
    if counted is not None and result.counted is not None:
        expected = partial(expected_blocks, *result.counted, counted)
    return Trained(
        best={name: best for name, best in zip(names, result.best, strict=True) if name in directions},
        iterations={name: tuple(rows) for name, rows in zip(names, figures, strict=True) if name in directions},
        expected=expected,
        model=model,
        shards=shards,
        null_counts=result.nulls,
    )


def _rows(
    firsts: Int64,
    target: Int32,
    counts: Float64,
    normaliser: tuple[Int64, Float64],
    alpha: float,
    values: Array,
) -> None:
    """Counts to probabilities, for some rows."""
    firsts = np.ascontiguousarray(firsts)
    degree, columns = normaliser
    scratch = np.zeros((len(columns) if firsts.shape[0] > 1 else 0, 2))
    totals = np.zeros(firsts.shape[1] - 1)
    add_up(firsts, target, counts, scratch, totals)
    rows = normalisers(totals, degree, alpha)
    probabilities(firsts, (target, counts), (rows, columns), alpha, values)


def _no_degrees(words: Bitext) -> tuple[Int64, Int64]:
    return np.zeros(words.source_words, dtype=np.int64), np.zeros(words.target_words, dtype=np.int64)


def _shapes(words: Bitext) -> tuple[Int32, Int32, Int64]:
    """Distinct (source length, target length) and how many pairs have each."""
    lengths = np.diff(words.source_offsets) << 32 | np.diff(words.target_offsets)
    shapes, counts = np.unique(lengths, return_counts=True)
    return (shapes >> 32).astype(np.int32), (shapes & 0xFFFFFFFF).astype(np.int32), counts.astype(np.int64)


def _null_probabilities(counts: Float64, occurring: Array, alpha: float) -> Array:
    """p(word | NULL): one row over the words that occur; float32 [words]."""
    result = np.zeros(len(counts), dtype=np.float32)
    used = np.flatnonzero(occurring)
    values = np.zeros((len(used), 2), dtype=np.float32)
    both = np.zeros((len(used), 2))
    both[:, 0] = counts[used]
    firsts = np.array([[0, len(used)]], dtype=np.int64)
    degree = np.array([len(used)], dtype=np.int64)
    _rows(firsts, np.zeros(len(used), dtype=np.int32), both, (degree, np.zeros(1)), alpha, values)
    result[used] = values[:, 0]
    return result


class _Constant:
    """A column with the same two numbers in every row."""

    def __init__(self, value: np.float32) -> None:
        self._value = value

    def read(self, start: int, end: int) -> Array:
        return np.full((end - start, 2), self._value, dtype=np.float32)


class _Writer:
    """Takes a shard's new probabilities in the order of its parameters, into a file or into memory."""

    def __init__(self, path: Path | None) -> None:
        self._parts: list[Array] = []
        self._path = path
        self._file = None if path is None else path.open("wb")

    def write(self, values: Array) -> None:
        if self._file is None:
            self._parts.append(values)
        else:
            self._file.write(np.ascontiguousarray(values).data)

    def done(self) -> Column:
        if self._file is None or self._path is None:
            return Resident(self._parts[0] if len(self._parts) == 1 else np.concatenate(self._parts))
        self._file.close()
        return Spilled(self._path, np.float32, 2)
