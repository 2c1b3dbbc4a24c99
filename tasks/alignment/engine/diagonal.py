"""The diagonal prior of Dyer et al. 2013 and the fit of its tension.

C. Dyer, V. Chahuneau, N. A. Smith: A Simple, Fast, and Effective Reparameterization of IBM Model 2, NAACL 2013.

Names: a *generated* sentence of m words is explained by a *given* sentence of n words (forward: target given source).
The diagonal prior of generated position j (from 1) over given positions i (from 1) is

    p(i | j, m, n) = (1 - p_null) * exp(-tension * |i/n - j/m|) / Z(j, m, n),      p(NULL) = p_null.

Two habits of the published implementation are kept, because its final tensions depend on them: the empirical feature
is taken at the generated position counted from 0, and the normaliser inside the derivative of the log-normaliser is
evaluated with the two lengths exchanged (in 32-bit unsigned arithmetic).
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tasks.alignment.compiled import compiled
from tasks.alignment.engine.parallel import Threads
from tasks.alignment.links import Int32, Int64

Float64 = npt.NDArray[np.float64]

TENSION_STEPS = 8
TENSION_RATE = 20.0
LEAST_TENSION = 0.1
MOST_TENSION = 14.0
FIT_SHAPES = 256  # sentence shapes summed in one go; fixed, because the order of adding decides the last bit


@compiled
def log_prior(j: int, i: int, m: int, n: int) -> float:
    """Feature of the diagonal prior, -|i/n - j/m|."""
    return -abs(i / n - j / m)


@compiled
def normaliser(j: int, m: int, n: int, tension: float) -> float:
    """Z(j, m, n) = sum over i of exp(tension * feature), in closed form: two geometric series around the diagonal.

    `j > m` is possible only through the exchanged lengths in `expected_feature`; the number of terms above the
    diagonal is then taken modulo 2^32, like the unsigned number of the published implementation.
    """
    below = int(j * n / m)
    above = n - below
    if above < 0:
        above += 4294967296
    step = tension / n
    total = 0.0
    if above != 0:
        total += math.exp(tension * log_prior(j, below + 1, m, n)) * math.expm1(-step * above) / math.expm1(-step)
    if below > 0:
        total += math.exp(tension * log_prior(j, below, m, n)) * math.expm1(-step * below) / math.expm1(-step)
    return total


@compiled
def _arithmetico_geometric(first: float, weight: float, step: float, tension_step: float, terms: int) -> float:
    """Sum over k < terms of (first + k * step) * weight * exp(-tension_step * k)."""
    ratio = math.exp(-tension_step)
    minus = math.expm1(-tension_step)
    end = weight * math.exp(-tension_step * terms)
    last = first + step * (terms - 1)
    return (last * end - first * weight) / minus - step * (end - weight * ratio) / (minus * minus)


@compiled
def expected_feature(j: int, m: int, n: int, tension: float) -> float:
    """Derivative of log Z in the tension at generated position j: the model's expected feature.

    As published, the sum of features is divided by Z(j, n, m), with the lengths exchanged.
    """
    below = int(j * n / m)
    above = n - below
    step = tension / n
    total = 0.0
    if above > 0:
        feature = log_prior(j, below + 1, m, n)
        total += _arithmetico_geometric(feature, math.exp(tension * feature), -1.0 / n, step, above)
    if below > 0:
        feature = log_prior(j, below, m, n)
        total += _arithmetico_geometric(feature, math.exp(tension * feature), -1.0 / n, step, below)
    return total / normaliser(j, n, m, tension)


@compiled
def sum_expected_features(generated: Int32, given: Int32, counts: Int64, tension: float) -> float:
    """Sum of `expected_feature` over all generated positions of a corpus.

    Args:
        generated: int32 [shapes], lengths m.
        given: int32 [shapes], lengths n.
        counts: int64 [shapes], sentence pairs of each shape.
        tension: tension of the prior.
    """
    total = 0.0
    for k in range(len(counts)):
        part = 0.0
        for j in range(1, generated[k] + 1):
            part += expected_feature(j, generated[k], given[k], tension)
        total += counts[k] * part
    return total


def fit_tension(
    shapes: tuple[Int32, Int32, Int64], observed: float, tension: float, threads: Threads | None = None
) -> list[float]:
    """The tension after each of `TENSION_STEPS` gradient steps (Dyer et al. 2013, section 3.2).

    Args:
        shapes: int32 [S] generated lengths, int32 [S] given lengths, int64 [S] pairs of each shape.
        observed: mean posterior feature of the last pass.
        tension: tension to start from.
        threads: to work in; the result does not depend on them.

    Returns:
        `TENSION_STEPS` values, each within `LEAST_TENSION` and `MOST_TENSION`.
    """
    words = int(np.dot(shapes[0].astype(np.int64), shapes[2]))
    runner = threads or Threads(1)
    pieces = [tuple(array[k : k + FIT_SHAPES] for array in shapes) for k in range(0, len(shapes[0]), FIT_SHAPES)]
    steps = []
    for _ in range(TENSION_STEPS):
        sums = runner.run(sum_expected_features, [(*piece, tension) for piece in pieces])
        tension = min(max(tension + TENSION_RATE * (observed - math.fsum(sums) / words), LEAST_TENSION), MOST_TENSION)
        steps.append(tension)
    return steps


@dataclass(frozen=True)
class PriorTables:
    """exp(tension * i/n) and exp(-tension * i/n) of every length n that occurs, with sums; all float64.

    Row `first[n] + i` belongs to position i (0 to n) of length n; `first` is int64 by length, -1 for none.

    With them exp(-tension * |i/n - j/m|) is one product, and so is its sum over i.

    Attributes:
        first: int64 [longest + 1].
        rising: exp(tension * i/n).
        falling: exp(-tension * i/n).
        rising_sum: sum of `rising` over the positions 1 to i.
        falling_sum: sum of `falling` over the positions i + 1 to n.
    """

    first: Int64
    rising: Float64
    falling: Float64
    rising_sum: Float64
    falling_sum: Float64

    def arrays(self) -> tuple[Int64, Float64, Float64, Float64, Float64]:
        """As the kernels take them."""
        return self.first, self.rising, self.falling, self.rising_sum, self.falling_sum


def prior_tables(lengths: Int64, tension: float) -> PriorTables:
    """The tables of the distinct `lengths` (sorted)."""
    longest = int(lengths.max(initial=0))
    first = np.full(longest + 1, -1, dtype=np.int64)
    sizes = lengths + 1
    first[lengths] = np.cumsum(sizes) - sizes
    share = np.concatenate([np.arange(n + 1) / n for n in lengths.tolist()] or [np.zeros(0)])
    rising, falling = np.exp(tension * share), np.exp(-tension * share)
    rising_sum, falling_sum = np.zeros(len(share)), np.zeros(len(share))
    for n in lengths.tolist():
        at = first[n]
        rising_sum[at + 1 : at + n + 1] = np.cumsum(rising[at + 1 : at + n + 1])
        falling_sum[at : at + n] = np.cumsum(falling[at + 1 : at + n + 1][::-1])[::-1]
    return PriorTables(first, rising, falling, rising_sum, falling_sum)
