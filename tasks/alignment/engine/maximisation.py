"""Compiled kernels of the M-step: translation probabilities from the counts of one or more shards, row by row.

Every shard has its own parameters, grouped by source word; a word pair may be a parameter of several shards. Its count
is the sum over them, and all of them get its probability.
"""

import math

import numpy as np
import numpy.typing as npt

from tasks.alignment.compiled import compiled
from tasks.alignment.links import Int32, Int64

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]

LEAST_PROBABILITY = 1e-37  # below it is the realm of denormal numbers, which are slow; nothing there decides a link


@compiled
def exp_digamma(x: float) -> float:
    """exp(digamma(x)) of x > 0: recurrence up to 6, then the asymptotic series; relative error below 1e-7."""
    shift = 0.0
    while x < 6.0:
        shift -= 1.0 / x
        x += 1.0
    z = x - 0.5
    inverse = 1.0 / (z * z)
    value = z * (1.0 + inverse * (1 / 24 + inverse * (-37 / 5760 + inverse * (10313 / 2903040))))
    return value * math.exp(shift) if shift < 0.0 else value


@compiled
def column_sums(target: Int32, counts: Float64, sums: Float64) -> None:
    """Add `counts` (float64 [parameters, 2]), second column, to `sums` (int64 [target words]) by target word."""
    for k in range(len(target)):
        sums[target[k]] += counts[k, 1]


@compiled
def degrees(
    rows: tuple[int, int], firsts: Int64, target: Int32, seen: Int32, row_degree: Int64, column_degree: Int64
) -> None:
    """Count the distinct word pairs.

    Args:
        rows: source words.
        firsts: int64 [shards, rows + 1], boundaries of every row in `target`, by shard.
        target: int32, target words of the rows' parameters, shard after shard.
        seen: int32 [target words], scratch, filled with -1 by the caller before the first row.
        row_degree: int64 [source words], set.
        column_degree: int64 [target words], added to.
    """
    for row in range(rows[0], rows[1]):
        found = 0
        for s in range(firsts.shape[0]):
            for k in range(firsts[s, row - rows[0]], firsts[s, row - rows[0] + 1]):
                if seen[target[k]] != row:
                    seen[target[k]] = row
                    column_degree[target[k]] += 1
                    found += 1
        row_degree[row] = found


@compiled
def add_up(firsts: Int64, target: Int32, counts: Float64, scratch: Float64, totals: Float64) -> None:
    """Replace the counts of every parameter by the sum over the shards that have its word pair.

    Args:
        firsts: int64 [shards, rows + 1], boundaries of every row in `target`, by shard.
        target: int32 [parameters], shard after shard.
        counts: float64 [parameters, 2], changed.
        scratch: float64 [target words, 2], zero, and zero again afterwards (not used for a single shard).
        totals: float64 [rows], set to the sum of the row's counts of the first column.
    """
    for row in range(firsts.shape[1] - 1):
        total = 0.0
        for s in range(firsts.shape[0]):
            for k in range(firsts[s, row], firsts[s, row + 1]):
                total += counts[k, 0]
        totals[row] = total
        if firsts.shape[0] < 2:
            continue
        for s in range(firsts.shape[0]):
            for k in range(firsts[s, row], firsts[s, row + 1]):
                scratch[target[k], 0] += counts[k, 0]
                scratch[target[k], 1] += counts[k, 1]
        for s in range(firsts.shape[0]):
            for k in range(firsts[s, row], firsts[s, row + 1]):
                counts[k, 0] = scratch[target[k], 0]
                counts[k, 1] = scratch[target[k], 1]
        for s in range(firsts.shape[0]):
            for k in range(firsts[s, row], firsts[s, row + 1]):
                scratch[target[k], 0] = 0.0
                scratch[target[k], 1] = 0.0


@compiled
def normalisers(totals: Float64, degree: Int64, alpha: float) -> Float64:
    """What the counts of each row are divided by: float64 from the rows' totals and numbers of distinct pairs.

    0 for a row without counts.
    """
    result = np.zeros(len(totals))
    for k in range(len(totals)):
        if totals[k] > 0.0:
            result[k] = exp_digamma(totals[k] + alpha * degree[k]) if alpha > 0.0 else totals[k]
    return result


@compiled
def probabilities(
    firsts: Int64,
    parameters: tuple[Int32, Float64],
    normaliser: tuple[Float64, Float64],
    alpha: float,
    result: Float32,
) -> None:
    """Translation probabilities of whole rows, in both directions.

    Args:
        firsts: int64 [shards, rows + 1], boundaries of every row in the parameters, by shard.
        parameters: (int32 target words, float64 [parameters, 2] counts summed over the shards).
        normaliser: what counts are divided by: (float64 [rows], float64 [target words] for the reverse direction); 0
            gives probability 0.
        alpha: concentration of the symmetric Dirichlet prior (variational Bayes, exp(digamma(c + alpha) - digamma(sum
            of c + alpha))); 0 for maximum likelihood, c / sum of c.
        result: float32 [parameters, 2], filled.
    """
    target, counts = parameters
    row_normaliser, column_normaliser = normaliser
    nothing = exp_digamma(alpha) if alpha > 0.0 else 0.0
    for row in range(firsts.shape[1] - 1):
        for s in range(firsts.shape[0]):
            for k in range(firsts[s, row], firsts[s, row + 1]):
                for d in range(2):
                    divisor = row_normaliser[row] if d == 0 else column_normaliser[target[k]]
                    value = counts[k, d]
                    if alpha > 0.0:
                        value = exp_digamma(value + alpha) if value > 0.0 else nothing
                    value = value / divisor if divisor > 0.0 else 0.0
                    result[k, d] = value if value > LEAST_PROBABILITY else 0.0
