"""Compiled kernels of the E-step: posteriors of both directions in one pass over the cells, and their sums.

All sums over the corpus are exact (posteriors rounded to multiples of a power of two that is large enough for float64
to hold every sum without rounding; figures in integers), so they are the same for every order of adding: for any number
of threads and any division of the text into shards.
"""

import math

import numpy as np
import numpy.typing as npt

from tasks.alignment.compiled import compiled
from tasks.alignment.engine.prefetch import prefetch
from tasks.alignment.links import Int32, Int64

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Int16 = npt.NDArray[np.int16]

LEAST_SUM = 1e-30  # a position whose joint probabilities sum to less falls back to the prior alone
FIGURE_SCALE = 2.0**20  # of the sums of logarithms, NULL posteriors and features
Tables = tuple[Int64, Float64, Float64, Float64, Float64]


def rounding_constant(words: int) -> float:
    """The number c for which (x + c) - c rounds posteriors x so that sums over `words` words are exact in float64."""
    return 1.5 * 2.0 ** max(words - 1, 1).bit_length()


@compiled
def _scales(tables: Tables, m: int, n: int, p_null: float, scale: Float64) -> None:
    """(1 - p_null) / Z(j, m, n) for every generated position j into `scale`."""
    first, rising, falling, rising_sum, falling_sum = tables
    own, given = first[m], first[n]
    for j in range(1, m + 1):
        below = given + j * n // m
        total = falling[own + j] * rising_sum[below] + rising[own + j] * falling_sum[below]
        scale[j - 1] = (1.0 - p_null) / total


@compiled
def _prior(diagonal: bool, j: int, i: int, m: int, n: int, tension: float, scale: float) -> float:
    return math.exp(-tension * abs(i / n - j / m)) * scale if diagonal else 1.0 / (n + 1)


@compiled
def _fill_weights(tables: Tables, m: int, scale: Float64, own: bool, low: Float64, high: Float64) -> None:
    """Parts of the prior that depend on the target position, for source positions before and after the diagonal."""
    first, rising, falling, _, _ = tables
    at = first[m] + 1
    for j in range(m):
        factor = scale[j] if own else 1.0
        low[j] = rising[at + j] * factor
        high[j] = falling[at + j] * factor


@compiled
def _decode_row(row: int, m: int, i: int, joint: Float32, most: Float32, where: Int64) -> None:
    """Take source position i as best partner of the target positions that it suits better than all before."""
    for j in range(m):
        if joint[row + j] > most[j]:
            most[j], where[j] = joint[row + j], i


@compiled
def expectation(
    pairs: tuple[int, int],
    sides: tuple[Int32, Int64, Int32, Int64],
    cells: tuple[Int32, Int64, int],
    probabilities: tuple[Float32, Float32, Float32],
    model: tuple[bool, float, float, float, bool],
    tables: tuple[Tables, Tables],
    joints: tuple[Float32, Float32],
    inverses: tuple[Float32, Float32],
    nulls: tuple[Float32, Float32],
    best: tuple[Int16, Int16],
) -> tuple[int, int, int, int, int, int]:
    """Posteriors of the pairs `pairs[0]` to `pairs[1]` in both directions.

    The posterior of a cell is its joint probability times the inverse of its generated word.

    Args:
        pairs: first and last (exclusive) pair.
        sides: (source words, source offsets, target words, target offsets).
        cells: (parameter of every cell from cell `base` on, first cell of every pair, `base`).
        probabilities: (float32 [parameters, 2] of target given source and of source given target, float32 [target
            words] given NULL, float32 [source words] given NULL).
        model: (diagonal prior or uniform, p_null, tension of the forward direction, of the reverse direction, whether
            `best` is wanted).
        tables: `PriorTables.arrays()` for both tensions.
        joints: float32 by cell from `base` on, filled: joint probabilities of the forward and the reverse direction.
        inverses: float32 [target tokens] and [source tokens], filled: 1 / sum of the joint probabilities with NULL.
        nulls: float32 [target tokens] and [source tokens], filled: posterior of NULL.
        best: int16 [target tokens] and [source tokens], filled: partner of highest posterior, -1 for NULL, the first
            at a tie.

    Returns:
        Sums in units of 1 / `FIGURE_SCALE`, forward then reverse: natural log likelihood, posterior of NULL, feature
        with the generated position counted from 0.
    """
    source, source_offsets, target, target_offsets = sides
    cell, first_cell, base = cells
    translation, null_target, null_source = probabilities
    diagonal, p0, tension, reverse_tension, decode = model
    given_source, given_target = tables
    joint, reverse_joint = joints
    longest_source, longest_target = 1, 1
    for p in range(pairs[0], pairs[1]):
        longest_source = max(longest_source, source_offsets[p + 1] - source_offsets[p])
        longest_target = max(longest_target, target_offsets[p + 1] - target_offsets[p])
    low, high = np.ones(longest_target), np.ones(longest_target)
    reverse_low, reverse_high = np.ones(longest_target), np.ones(longest_target)
    total, feature = np.empty(longest_target), np.empty(longest_target)
    scale, reverse_scale = np.ones(longest_target), np.ones(longest_source)
    most, where = np.empty(longest_target, dtype=np.float32), np.empty(longest_target, dtype=np.int64)
    sums = np.zeros(6, dtype=np.int64)
    for p in range(pairs[0], pairs[1]):
        s, t = source_offsets[p], target_offsets[p]
        n, m = source_offsets[p + 1] - s, target_offsets[p + 1] - t
        start = first_cell[p] - base
        p_null = p0 if diagonal else 1.0 / (n + 1)
        reverse_p_null = p0 if diagonal else 1.0 / (m + 1)
        rows_f, rows_r = 0, 0
        if diagonal:
            rows_f, rows_r = given_source[0][n] + 1, given_target[0][n] + 1
            _scales(given_source, m, n, p0, scale)
            _scales(given_target, n, m, p0, reverse_scale)
            _fill_weights(given_source, m, scale, True, low, high)
            _fill_weights(given_target, m, scale, False, reverse_low, reverse_high)
        for j in range(m):
            total[j] = p_null * null_target[target[t + j]]
            most[j], where[j], feature[j] = total[j], -1, 0.0
        log_sum, null_sum, feature_sum = 0.0, 0.0, 0.0
        per_target = 1.0 / m
        for i in range(n):
            row = start + i * m
            turn = (i + 1) * m // n  # target positions up to here stand before the diagonal
            null = reverse_p_null * null_source[source[s + i]]
            row_total, row_feature = null, 0.0
            x, x_before = (i + 1) / n, i / n
            down, up, reverse_down, reverse_up = p_null, p_null, reverse_p_null, reverse_p_null
            if diagonal:
                down, up = given_source[2][rows_f + i], given_source[1][rows_f + i]
                reverse_down = given_target[2][rows_r + i] * reverse_scale[i]
                reverse_up = given_target[1][rows_r + i] * reverse_scale[i]
            row_cell, ahead = cell[row : row + m], cell[row + m : row + m + m]
            for j in range(len(ahead)):
                prefetch(translation, ahead[j])
            row_joint, row_reverse = joint[row : row + m], reverse_joint[row : row + m]
            for j in range(turn):
                c = row_cell[j]
                value = low[j] * down * translation[c, 0]
                other = reverse_low[j] * reverse_down * translation[c, 1]
                total[j] += value
                row_total += other
                row_joint[j] = value
                row_reverse[j] = other
                feature[j] += value * (x - j * per_target)
                row_feature += other * abs((j + 1) * per_target - x_before)
            for j in range(turn, m):
                c = row_cell[j]
                value = high[j] * up * translation[c, 0]
                other = reverse_high[j] * reverse_up * translation[c, 1]
                total[j] += value
                row_total += other
                row_joint[j] = value
                row_reverse[j] = other
                feature[j] += value * abs(j * per_target - x)
                row_feature += other * ((j + 1) * per_target - x_before)
            if decode:
                _decode_row(row, m, i, joint, most, where)
                row_most, row_where = np.float32(null), -1
                for j in range(m):
                    if reverse_joint[row + j] > row_most:
                        row_most, row_where = reverse_joint[row + j], j
                best[1][s + i] = row_where
            if row_total < LEAST_SUM:
                null, row_total, row_feature = reverse_p_null, reverse_p_null, 0.0
                for j in range(m):
                    value = _prior(diagonal, i + 1, j + 1, n, m, reverse_tension, reverse_scale[i])
                    reverse_joint[row + j] = value
                    row_total += value
                    row_feature += value * abs((j + 1) * per_target - x_before)
                log_sum += math.log(LEAST_SUM)
            else:
                log_sum += math.log(row_total)
            inverses[1][s + i] = 1.0 / row_total
            nulls[1][s + i] = null / row_total
            null_sum += null / row_total
            feature_sum -= row_feature / row_total
        sums[3] += np.int64(np.rint(log_sum * FIGURE_SCALE))
        sums[4] += np.int64(np.rint(null_sum * FIGURE_SCALE))
        sums[5] += np.int64(np.rint(feature_sum * FIGURE_SCALE))
        log_sum, null_sum, feature_sum = 0.0, 0.0, 0.0
        for j in range(m):
            null = p_null * null_target[target[t + j]]
            if decode:
                best[0][t + j] = where[j]
            if total[j] < LEAST_SUM:
                null, total[j], feature[j] = p_null, p_null, 0.0
                for i in range(n):
                    value = _prior(diagonal, j + 1, i + 1, m, n, tension, scale[j])
                    joint[start + i * m + j] = value
                    total[j] += value
                    feature[j] += value * abs((i + 1) / n - j * per_target)
                log_sum += math.log(LEAST_SUM)
            else:
                log_sum += math.log(total[j])
            inverses[0][t + j] = 1.0 / total[j]
            nulls[0][t + j] = null / total[j]
            null_sum += null / total[j]
            feature_sum -= feature[j] / total[j]
        sums[0] += np.int64(np.rint(log_sum * FIGURE_SCALE))
        sums[1] += np.int64(np.rint(null_sum * FIGURE_SCALE))
        sums[2] += np.int64(np.rint(feature_sum * FIGURE_SCALE))
    return sums[0], sums[1], sums[2], sums[3], sums[4], sums[5]


@compiled
def add_cells(
    pairs: tuple[int, int],
    sides: tuple[Int32, Int64, Int64],
    cells: tuple[Int32, Int64, int],
    posteriors: tuple[Float32, Float32, Float32, Float32],
    owners: tuple[npt.NDArray[np.uint8], int, bool],
    rounding: float,
    counts: Float64,
) -> None:
    """Add the posteriors of all cells to the counts of their parameters.

    Args:
        pairs: first and last (exclusive) pair.
        sides: (source words, source offsets, target offsets).
        cells: (parameter of every cell from cell `base` on, first cell of every pair, `base`).
        posteriors: joint probabilities of both directions by cell from `base` on, inverses of the target tokens and
            of the source tokens (see `expectation`).
        owners: (uint8 [source words] owner of each word's parameters, owner whose words are added, add all of them).
        rounding: see `rounding_constant`.
        counts: float64 [parameters, 2], added to.
    """
    source, source_offsets, target_offsets = sides
    cell, first_cell, base = cells
    joint, reverse_joint, inverse, reverse_inverse = posteriors
    owner, mine, everything = owners
    tokens = source_offsets[pairs[1]] - source_offsets[pairs[0]]
    rows = np.empty((tokens + 1, 4), dtype=np.int64)  # first cell, target words, first target token, source token
    found = 0
    for p in range(pairs[0], pairs[1]):
        t = target_offsets[p]
        m = target_offsets[p + 1] - t
        row = first_cell[p] - base
        for k in range(source_offsets[p], source_offsets[p + 1]):
            rows[found, 0], rows[found, 1], rows[found, 2], rows[found, 3] = row, m, t, k
            found += 1 if everything or owner[source[k]] == mine else 0
            row += m
    # Only rows of its own are fetched ahead: those of others are being written by them.
    for r in range(found):
        row, m, t = rows[r, 0], rows[r, 1], rows[r, 2]
        if r + 1 < found:
            ahead = cell[rows[r + 1, 0] : rows[r + 1, 0] + rows[r + 1, 1]]
            for j in range(len(ahead)):
                prefetch(counts, ahead[j])
        factor = np.float64(reverse_inverse[rows[r, 3]])
        row_cell, row_inverse = cell[row : row + m], inverse[t : t + m]
        row_joint, row_reverse = joint[row : row + m], reverse_joint[row : row + m]
        for j in range(m):
            c = row_cell[j]
            value = np.float64(row_joint[j]) * np.float64(row_inverse[j])
            other = np.float64(row_reverse[j]) * factor
            counts[c, 0] += (value + rounding) - rounding
            counts[c, 1] += (other + rounding) - rounding


@compiled
def add_nulls(words: Int32, nulls: Float32, rounding: float, counts: Float64) -> None:
    """Add the posteriors of NULL to the counts of their words.

    Args:
        words: int32 [tokens].
        nulls: float32 [tokens].
        rounding: see `rounding_constant`.
        counts: float64 [words], added to.
    """
    for k in range(len(words)):
        counts[words[k]] += (np.float64(nulls[k]) + rounding) - rounding
