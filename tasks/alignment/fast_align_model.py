"""Training of fast_align's model (Dyer et al. 2013) and of IBM Model 1 by expectation maximisation.

The passes are those of the published program: the first starts from uniform translation probabilities, the tension is
fitted after every pass but the first and the last, and the last pass decodes. On top of that the last pass also sums
its posteriors: expected counts are those of pass `iterations`, under the same parameters that choose the links. (The
published trans-tokenization code takes pass 6 of 7: the counts of `iterations=6` here.)
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tasks.alignment.cells import Bitext, Cells
from tasks.alignment.fast_align_kernels import (
    UNIFORM_START,
    Float64,
    expectation,
    maximisation,
    mean_expected_feature,
)
from tasks.alignment.links import Int32, Int64, Links, links_of_best, parts

TENSION_STEPS = 8
TENSION_RATE = 20.0
LEAST_TENSION = 0.1
MOST_TENSION = 14.0
PAIRS_PER_CALL = 20_000  # between two reports of progress; fixed, because sums are added up call by call


@dataclass(frozen=True)
class ModelSettings:
    """What the model is (see `configs.schema.AlignmentConfig`).

    Attributes:
        diagonal: diagonal prior; False is IBM Model 1, whose prior is 1 / (n + 1) with NULL as one of the words.
        iterations: passes, the decoding one included.
        alpha: concentration of the Dirichlet prior of variational Bayes; 0 for maximum likelihood.
        p_null: prior of NULL (diagonal only).
        tension: first tension (diagonal only).
        optimize_tension: fit the tension (diagonal only).
    """

    diagonal: bool = True
    iterations: int = 5
    alpha: float = 0.01
    p_null: float = 0.08
    tension: float = 4.0
    optimize_tension: bool = True


@dataclass(frozen=True)
class Iteration:
    """Figures of one pass.

    Attributes:
        log_likelihood: natural logarithm, summed over the generated words.
        perplexity: exp(-log_likelihood / generated words).
        tension: tension used in this pass.
        p_null: share of the generated words' posterior that is on NULL.
        feature: mean posterior feature of the diagonal (the generated position counted from 0, as published).
    """

    log_likelihood: float
    perplexity: float
    tension: float
    p_null: float
    feature: float


@dataclass(frozen=True)
class Direction:
    """A trained direction.

    Attributes:
        best: int32 [generated tokens], given position of highest posterior, -1 for NULL.
        offsets: int64 [N + 1], sentences of the generated side.
        counts: float64 [parameters of the counted cells], posterior sums of the last pass.
        null_counts: float64 [generated words], posterior sums of NULL in the last pass.
        iterations: figures of every pass.
        reverse: the source side is generated from the target side.
    """

    best: Int32
    offsets: Int64
    counts: Float64
    null_counts: Float64
    iterations: tuple[Iteration, ...]
    reverse: bool

    def links(self) -> Links:
        """The links of the last pass."""
        return links_of_best(self.best, self.offsets, self.reverse)


def no_report(pairs: int, iteration: Iteration | None) -> None:
    """A report of progress that goes nowhere."""


def train(
    bitext: Bitext,
    cells: Cells,
    settings: ModelSettings,
    reverse: bool = False,
    counted: Cells | None = None,
    report: Callable[[int, Iteration | None], None] = no_report,
) -> Direction:
    """Train one direction and decode.

    Args:
        bitext: the sentence pairs; every side of every pair has at least one word.
        cells: its cells.
        settings: the model.
        reverse: generate the source side given the target side.
        counted: cells of the same sentences over another vocabulary by which the last pass counts; None: `cells`.
        report: called with the pairs done in this pass, and at its end with its figures.

    Returns:
        The trained direction. The same for the same input, down to the last bit.
    """
    counted = cells if counted is None else counted
    words = bitext.source_words if reverse else bitext.target_words
    rows, row = (bitext.target_words, cells.target) if reverse else (bitext.source_words, cells.source)
    generated, offsets = (bitext.source, bitext.source_offsets) if reverse else (bitext.target, bitext.target_offsets)
    shapes = _shapes(bitext, reverse)
    translation = np.full(len(cells.source), UNIFORM_START)
    null_translation = np.full(words, UNIFORM_START)
    occurring = np.bincount(generated, minlength=words) > 0
    best = np.full(len(generated), -1, dtype=np.int32)
    tension, iterations = settings.tension, []
    for number in range(1, settings.iterations + 1):
        last = number == settings.iterations
        counts = np.zeros(len(counted.source) if last else len(cells.source))
        null_counts = np.zeros(words)
        into = counted if last else cells
        index = (cells.parameter, into.parameter, cells.offsets, reverse)
        prior = (settings.p_null, tension, settings.diagonal)
        probabilities = (translation, null_translation)
        figures = _pass(bitext, index, prior, probabilities, (counts, null_counts, best), report)
        iterations.append(figures)
        report(len(bitext), figures)
        if last:
            break
        if settings.diagonal and settings.optimize_tension and number > 1:
            tension = fit_tension(shapes, figures.feature, tension)[-1]
        translation = maximisation(counts, row, rows, settings.alpha)
        null_translation[occurring] = maximisation(
            null_counts[occurring], np.zeros(int(occurring.sum()), dtype=np.int32), 1, settings.alpha
        )
    return Direction(best, offsets, counts, null_counts, tuple(iterations), reverse)


def _pass(
    bitext: Bitext,
    index: tuple[Int32, Int32, Int64, bool],
    prior: tuple[float, float, bool],
    probabilities: tuple[Float64, Float64],
    results: tuple[Float64, Float64, Int32],
    report: Callable[[int, Iteration | None], None],
) -> Iteration:
    """One pass over all pairs; fills `results` (see `expectation`)."""
    reverse = index[3]
    sides = (
        (bitext.source, bitext.source_offsets, bitext.target_offsets)
        if reverse
        else (bitext.target, bitext.target_offsets, bitext.source_offsets)
    )
    sums = np.zeros(3)
    for start, end in parts(len(bitext), PAIRS_PER_CALL):
        sums += expectation(sides, (start, end), index, probabilities, prior, results)
        report(end, None)
    means = sums / len(sides[0])
    return Iteration(
        log_likelihood=float(sums[0]),
        perplexity=float(np.exp(-means[0])),
        tension=prior[1],
        p_null=float(means[1]),
        feature=float(means[2]),
    )


def _shapes(bitext: Bitext, reverse: bool) -> tuple[Int32, Int32, Int64]:
    """Distinct (generated length, given length) and how many pairs have each."""
    lengths = np.stack([np.diff(bitext.target_offsets), np.diff(bitext.source_offsets)])
    shapes, counts = np.unique(lengths[::-1] if reverse else lengths, axis=1, return_counts=True)
    shapes = np.ascontiguousarray(shapes.astype(np.int32))
    return shapes[0], shapes[1], counts.astype(np.int64)


def fit_tension(shapes: tuple[Int32, Int32, Int64], observed: float, tension: float) -> list[float]:
    """The tension after each of `TENSION_STEPS` gradient steps (Dyer et al. 2013, section 3.2).

    Args:
        shapes: int32 [S] generated lengths, int32 [S] given lengths, int64 [S] pairs of each shape.
        observed: mean posterior feature of the last pass.
        tension: tension to start from.

    Returns:
        `TENSION_STEPS` values, each within `LEAST_TENSION` and `MOST_TENSION`.
    """
    words = int(np.dot(shapes[0].astype(np.int64), shapes[2]))
    steps = []
    for _ in range(TENSION_STEPS):
        expected = mean_expected_feature(*shapes, tension) / words
        tension = min(max(tension + TENSION_RATE * (observed - expected), LEAST_TENSION), MOST_TENSION)
        steps.append(tension)
    return steps
