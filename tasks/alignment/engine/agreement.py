"""Compiled kernels of `builtin-plus`: agreement between the directions, and a hidden Markov model of positions.

Agreement: the posterior of a link is the product of its posteriors in the two directions, in training and in decoding
(P. Liang, B. Taskar, D. Klein: Alignment by Agreement, HLT-NAACL 2006, section 4.2).

Hidden Markov model: the prior of a given position depends on that of the generated word before it (S. Vogel, H. Ney,
C. Tillmann: HMM-Based Word Alignment in Statistical Translation, COLING 1996); a word without a partner keeps the
position of the word before (F. J. Och, H. Ney 2003). Jumps of up to `REACH` positions have a weight each, all longer
ones share one; weights are relative frequencies among the positions that could have been jumped to, counted on the best
links of the pass before.
"""

import math

import numpy as np
import numpy.typing as npt

from tasks.alignment.compiled import compiled
from tasks.alignment.engine.expectation import FIGURE_SCALE, LEAST_SUM
from tasks.alignment.engine.prefetch import prefetch
from tasks.alignment.links import Int32, Int64

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Int16 = npt.NDArray[np.int16]

REACH = 14
SPAN = 2 * REACH + 1
FAR = SPAN  # index of the jumps beyond `REACH`
LANES = 4  # given positions worked on at once
ROW = 32  # SPAN + LANES - 1: a constant number of steps, so that the loop becomes vector instructions
HMM_NULL = 0.2  # prior of NULL in the hidden Markov model
LEAST_AGREEMENT = 0.2  # least product of the two posteriors for a link

Jumps = npt.NDArray[np.int64]  # [2 directions, taken or possible, SPAN + 1]


def no_jumps() -> Jumps:
    """Jump counts of zero."""
    return np.zeros((2, 2, SPAN + 1), dtype=np.int64)


def jump_weights(jumps: Jumps) -> Float32:
    """Weight of every jump from -REACH to REACH, and of a longer one: float32 [2 directions, SPAN + 1].

    Relative frequencies with an addition that decides only where there is next to no text.
    """
    taken, possible = jumps[:, 0].astype(np.float64), jumps[:, 1].astype(np.float64)
    return ((taken + 0.1) / (possible + 10.0)).astype(np.float32)


@compiled
def _count_jumps(best: Int64, states: int, jumps: Int64) -> None:
    """Count the jumps between the best partners (-1: none) of neighbouring words, and the jumps possible."""
    before = -1
    for k in range(len(best)):
        if best[k] < 0:
            continue
        for d in range(max(-REACH, -before), min(REACH, states - 1 - before) + 1):
            jumps[1, d + REACH] += 1
        near = min(before + REACH, states - 1) - max(before - REACH, 0) + 1
        jumps[1, FAR] += states - near
        d = best[k] - before
        jumps[0, d + REACH if -REACH <= d <= REACH else FAR] += 1
        before = best[k]


@compiled
def _decode(q: Float32, n: int, m: int, best_target: Int64, best_source: Int64) -> None:
    """Best partners by agreed posterior (float32 [n * m], source positions slowest), -1 below `LEAST_AGREEMENT`."""
    for j in range(m):
        most, best_target[j] = np.float32(LEAST_AGREEMENT), -1
        for i in range(n):
            if q[i * m + j] > most:
                most, best_target[j] = q[i * m + j], i
    for i in range(n):
        most, best_source[i] = np.float32(LEAST_AGREEMENT), -1
        for j in range(m):
            if q[i * m + j] > most:
                most, best_source[i] = q[i * m + j], j


@compiled
def agree(
    pairs: tuple[int, int],
    offsets: tuple[Int64, Int64, Int64, int],
    joints: tuple[Float32, Float32],
    inverses: tuple[Float32, Float32],
    best: tuple[Int16, Int16],
    jumps: Jumps,
) -> None:
    """Replace both directions' joint probabilities by the agreed posterior, and decode.

    Args:
        pairs: first and last (exclusive) pair.
        offsets: (source offsets, target offsets, first cell of every pair, cell at which `joints` begin).
        joints: float32 by cell: joint probabilities (see `expectation`), both replaced.
        inverses: float32 [target tokens] and [source tokens], replaced by 1.
        best: int16 [target tokens] and [source tokens], filled.
        jumps: added to.
    """
    source_offsets, target_offsets, first_cell, base = offsets
    joint, reverse_joint = joints
    for p in range(pairs[0], pairs[1]):
        s, t = source_offsets[p], target_offsets[p]
        n, m = source_offsets[p + 1] - s, target_offsets[p + 1] - t
        start = first_cell[p] - base
        inverse = inverses[0][t : t + m]
        for i in range(n):
            row = joint[start + i * m : start + i * m + m]
            other = reverse_joint[start + i * m : start + i * m + m]
            factor = inverses[1][s + i]
            for j in range(m):
                value = row[j] * inverse[j] * (other[j] * factor)
                row[j] = value
                other[j] = value
        inverses[0][t : t + m] = 1.0
        inverses[1][s : s + n] = 1.0
        _store_best(joint[start : start + n * m], (s, t, n, m), best, jumps)


@compiled
def _store_best(q: Float32, place: tuple[int, int, int, int], best: tuple[Int16, Int16], jumps: Jumps) -> None:
    s, t, n, m = place
    best_target, best_source = np.empty(m, dtype=np.int64), np.empty(n, dtype=np.int64)
    _decode(q, n, m, best_target, best_source)
    for j in range(m):
        best[0][t + j] = best_target[j]
    for i in range(n):
        best[1][s + i] = best_source[i]
    _count_jumps(best_target, n, jumps[0])
    _count_jumps(best_source, m, jumps[1])


@compiled
def _lanes(weights: Float32, result: Float32) -> None:
    """Shifted copies of the near weights above the far one: float32 [LANES, ROW]."""
    for lane in range(LANES):
        for k in range(ROW):
            inside = 0 <= k - lane < SPAN
            result[lane, k] = weights[k - lane] - weights[FAR] if inside else 0.0


@compiled
def _spread(values: Float32, states: int, lanes: Float32, result: Float32) -> None:
    """result[REACH + i] = sum over a of values[a] * near weight of the jump from a to i.

    Args:
        values: float32 [states + LANES], zero from `states` on.
        states: number of positions.
        lanes: as `_lanes` makes them.
        result: float32 [states + LANES + ROW], filled.
    """
    for k in range(states + ROW):
        result[k] = 0.0
    first, second, third, fourth = lanes[0], lanes[1], lanes[2], lanes[3]
    for a in range(0, states, LANES):
        part = result[a : a + ROW]
        v0, v1, v2, v3 = values[a], values[a + 1], values[a + 2], values[a + 3]
        for k in range(ROW):
            part[k] += v0 * first[k] + v1 * second[k] + v2 * third[k] + v3 * fourth[k]


@compiled
def _normalisers(weights: Float32, states: int, result: Float32) -> None:
    """(1 - HMM_NULL) / sum of the jump weights from every position to all positions: float32 [states]."""
    near = np.float32(0.0)
    for d in range(0, min(REACH, states - 1) + 1):
        near += weights[REACH + d] - weights[FAR]
    for a in range(states):
        result[a] = (1.0 - HMM_NULL) / (near + weights[FAR] * states)
        if a + 1 < states:  # the window moves on by one position
            if a + 1 <= REACH:
                near += weights[REACH - a - 1] - weights[FAR]
            if a + REACH + 1 > states - 1:
                near -= weights[REACH + states - 1 - a] - weights[FAR]


@compiled
def _scaled(emission: Float32, null_probabilities: Float32, words: Int32, null: Float32) -> float:
    """Scale every step by its greatest probability, so that no product underflows.

    Args:
        emission: float32 [steps, states], scaled.
        null_probabilities: float32 [words of the vocabulary].
        words: int32 [steps], the generated words.
        null: float32 [steps], filled: the scaled probabilities given NULL.

    Returns:
        What the scaling takes from the log likelihood.
    """
    taken = 0.0
    for j in range(len(words)):
        row = emission[j]
        most = max(null_probabilities[words[j]], row.max())
        factor = 1.0 / most if most > 0.0 else 1.0
        taken -= math.log(factor)
        null[j] = null_probabilities[words[j]] * factor
        for i in range(len(row)):
            row[i] *= factor
    return taken


@compiled
def _hmm(
    emission: Float32,
    null: Float32,
    weights: Float32,
    lanes: tuple[Float32, Float32],
    scratch: tuple[Float32, Float32, Float32, Float32, Float32, Float32],
    null_posterior: Float32,
) -> float:
    """Forward-backward: posteriors replace `emission` (float32 [steps, states]); returns the log likelihood.

    Args:
        emission: float32 [steps, states], probability of each generated word given each position, replaced.
        null: float32 [steps], probability given NULL.
        weights: float32 [SPAN + 1], jump weights.
        lanes: near weights for steps forward and backward.
        scratch: float32 arrays: [steps, states] twice, [states + LANES] twice, [states], [states + LANES + ROW].
        null_posterior: float32 [steps], filled.
    """
    steps, states = emission.shape
    alpha, rest, values, beta, inverse, spread = scratch
    _normalisers(weights, states, inverse)
    far = weights[FAR]
    scales = np.empty(steps)
    log_sum = 0.0
    start = 0.0
    for i in range(states):
        start += weights[min(i + 1 + REACH, FAR)]
    for j in range(steps):
        row, own, absent = emission[j], alpha[j], rest[j]
        if j == 0:
            for i in range(states):
                own[i] = (1.0 - HMM_NULL) / start * weights[min(i + 1 + REACH, FAR)] * row[i]
                absent[i] = HMM_NULL * null[0] / states
        else:
            before, absent_before = alpha[j - 1], rest[j - 1]
            total = 0.0
            for i in range(states):
                values[i] = (before[i] + absent_before[i]) * inverse[i]
            for i in range(states):
                total += values[i]
            for i in range(states, states + LANES):
                values[i] = 0.0
            _spread(values, states, lanes[0], spread)
            part = spread[REACH : REACH + states]
            for i in range(states):
                own[i] = (part[i] + far * total) * row[i]
                absent[i] = (before[i] + absent_before[i]) * (HMM_NULL * null[j])
        scale = 0.0
        for i in range(states):
            scale += own[i] + absent[i]
        if scale < LEAST_SUM:  # nothing explains the word: it says nothing about positions
            for i in range(states):
                own[i] = 0.0
                absent[i] = alpha[j - 1, i] + rest[j - 1, i] if j > 0 else 1.0 / states
                row[i] = 0.0
            null[j] = 1.0 / HMM_NULL
            scale = 1.0
            log_sum += math.log(LEAST_SUM)
        log_sum += math.log(scale)
        scales[j] = scale
        for i in range(states):
            own[i] /= scale
            absent[i] /= scale
    for i in range(states):
        beta[i] = 1.0
    for j in range(steps - 1, -1, -1):
        row, own, absent = emission[j], alpha[j], rest[j]
        nothing, total = 0.0, 0.0
        for i in range(states):
            values[i] = row[i] * beta[i]
        for i in range(states):
            row[i] = own[i] * beta[i]
            total += values[i]
            nothing += absent[i] * beta[i]
        posterior = nothing
        for i in range(states):
            posterior += row[i]
        factor = 1.0 / posterior  # 1 but for rounding
        for i in range(states):
            row[i] *= factor
        null_posterior[j] = nothing * factor
        if j > 0:
            for i in range(states, states + LANES):
                values[i] = 0.0
            _spread(values, states, lanes[1], spread)
            part, keep = spread[REACH : REACH + states], HMM_NULL * null[j]
            for i in range(states):
                beta[i] = ((part[i] + far * total) * inverse[i] + keep * beta[i]) / scales[j]
    return log_sum


@compiled
def hmm_expectation(
    pairs: tuple[int, int],
    sides: tuple[Int32, Int64, Int32, Int64],
    cells: tuple[npt.NDArray[np.uint32], Int64, int],
    probabilities: tuple[Float32, Float32, Float32],
    weights: Float32,
    joints: tuple[Float32, Float32],
    inverses: tuple[Float32, Float32],
    nulls: tuple[Float32, Float32],
    best: tuple[Int16, Int16],
    jumps: Jumps,
) -> tuple[int, int, int, int, int, int]:
    """Agreed posteriors of the hidden Markov models of both directions.

    Arguments and result are those of `expectation` with `weights` (float32 [2, SPAN + 1], see `jump_weights`) in place
    of the diagonal prior; `joints` become the agreed posterior and `inverses` 1, as after `agree`; the features are 0.
    """
    source, source_offsets, target, target_offsets = sides
    cell, first_cell, base = cells
    translation, null_target, null_source = probabilities
    n_most, m_most = 1, 1
    for p in range(pairs[0], pairs[1]):
        n_most = max(n_most, source_offsets[p + 1] - source_offsets[p])
        m_most = max(m_most, target_offsets[p + 1] - target_offsets[p])
    longest = max(n_most, m_most)
    lanes = np.empty((2, 2, LANES, ROW), dtype=np.float32)
    for d in range(2):
        _lanes(weights[d], lanes[d, 0])
        backward = weights[d].copy()
        backward[:SPAN] = weights[d, :SPAN][::-1]
        _lanes(backward, lanes[d, 1])
    room = np.empty((4, n_most * m_most), dtype=np.float32)
    values, beta = np.zeros(longest + LANES, dtype=np.float32), np.zeros(longest + LANES, dtype=np.float32)
    inverse, spread = np.zeros(longest, dtype=np.float32), np.zeros(longest + LANES + ROW, dtype=np.float32)
    null_f, null_r = np.empty(m_most, dtype=np.float32), np.empty(n_most, dtype=np.float32)
    sums = np.zeros(6, dtype=np.int64)
    for p in range(pairs[0], pairs[1]):
        s, t = source_offsets[p], target_offsets[p]
        n, m = source_offsets[p + 1] - s, target_offsets[p + 1] - t
        start = first_cell[p] - base
        size = n * m
        forward = room[0, :size].reshape((m, n))
        reverse = room[1, :size].reshape((n, m))
        for i in range(n):
            row_cell = cell[start + i * m : start + i * m + m]
            ahead = cell[start + i * m + m : start + i * m + m + m]
            for j in range(len(ahead)):
                prefetch(translation, ahead[j])
            row = reverse[i]
            for j in range(m):
                c = row_cell[j]
                forward[j, i] = translation[c, 0]
                row[j] = translation[c, 1]
        log_f = _scaled(forward, null_target, target[t : t + m], null_f)
        log_r = _scaled(reverse, null_source, source[s : s + n], null_r)
        scratch = (room[2, :size].reshape((m, n)), room[3, :size].reshape((m, n)), values, beta, inverse, spread)
        log_f += _hmm(forward, null_f[:m], weights[0], (lanes[0, 0], lanes[0, 1]), scratch, nulls[0][t : t + m])
        scratch = (room[2, :size].reshape((n, m)), room[3, :size].reshape((n, m)), values, beta, inverse, spread)
        log_r += _hmm(reverse, null_r[:n], weights[1], (lanes[1, 0], lanes[1, 1]), scratch, nulls[1][s : s + n])
        joint, other = joints[0][start : start + size], joints[1][start : start + size]
        for i in range(n):
            row = reverse[i]
            for j in range(m):
                value = forward[j, i] * row[j]
                joint[i * m + j] = value
                other[i * m + j] = value
        inverses[0][t : t + m] = 1.0
        inverses[1][s : s + n] = 1.0
        _store_best(joint, (s, t, n, m), best, jumps)
        null_sum, other_sum = 0.0, 0.0
        for j in range(m):
            null_sum += nulls[0][t + j]
        for i in range(n):
            other_sum += nulls[1][s + i]
        sums[0] += np.int64(np.rint(log_f * FIGURE_SCALE))
        sums[1] += np.int64(np.rint(null_sum * FIGURE_SCALE))
        sums[3] += np.int64(np.rint(log_r * FIGURE_SCALE))
        sums[4] += np.int64(np.rint(other_sum * FIGURE_SCALE))
    return sums[0], sums[1], sums[2], sums[3], sums[4], sums[5]
