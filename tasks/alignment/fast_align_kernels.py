"""Compiled kernels of the reparameterised IBM Model 2 of Dyer et al. 2013, and of IBM Model 1.

C. Dyer, V. Chahuneau, N. A. Smith: A Simple, Fast, and Effective Reparameterization of IBM Model 2, NAACL 2013.

Names: a *generated* sentence of m words is explained by a *given* sentence of n words (forward: target given source).
The diagonal prior of generated position j (from 1) over given positions i (from 1) is

    p(i | j, m, n) = (1 - p_null) * exp(-tension * |i/n - j/m|) / Z(j, m, n),      p(NULL) = p_null.

Two habits of the published implementation are kept, because its final tensions depend on them: the empirical feature
is taken at the generated position counted from 0, and the normaliser inside the derivative of the log-normaliser is
evaluated with the two lengths exchanged (in 32-bit unsigned arithmetic).
"""

import math

import numpy as np
import numpy.typing as npt

from tasks.alignment.compiled import compiled

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]

UNIFORM_START = 1e-9  # every translation probability of the first pass
LEAST_SUM = 1e-300  # a position whose probabilities all underflow falls back to the prior alone


@compiled
def digamma(x: float) -> float:
    """Digamma of x > 0: recurrence up to 7, then the asymptotic series; absolute error below 1e-9."""
    result = 0.0
    while x < 7.0:
        result -= 1.0 / x
        x += 1.0
    inverse = 1.0 / (x * x)
    series = inverse * (1 / 12 - inverse * (1 / 120 - inverse * (1 / 252 - inverse * (1 / 240 - inverse / 132))))
    return result + math.log(x) - 0.5 / x - series


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
def mean_expected_feature(generated: Int32, given: Int32, counts: Int64, tension: float) -> float:
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


@compiled
def fill_prior(prior: Float64, j: int, m: int, n: int, values: tuple[float, float, bool]) -> float:
    """Write the prior of position j (from 1) over the n given positions into `prior`; returns that of NULL.

    `values` are (p_null, tension, diagonal prior or uniform).
    """
    p_null, tension, diagonal = values
    if not diagonal:
        for i in range(n):
            prior[i] = 1.0 / (n + 1)
        return 1.0 / (n + 1)
    scale = (1.0 - p_null) / normaliser(j, m, n, tension)
    for i in range(n):
        prior[i] = math.exp(tension * log_prior(j, i + 1, m, n)) * scale
    return p_null


@compiled
def fill_joint(
    joint: Float64,
    prior: Float64,
    n: int,
    null_joint: float,
    translation: Float64,
    cells: tuple[Int32, int, int],
) -> tuple[float, int]:
    """Write prior times translation probability of the n given positions into `joint`.

    `cells` are (index into the probabilities of every cell, cell of the first given position, step to the next).

    Returns:
        (their sum with NULL's, position of the highest or -1 for NULL).
    """
    cell_parameter, first, step = cells
    total, highest, partner = null_joint, null_joint, -1
    for i in range(n):
        value = prior[i] * translation[cell_parameter[first + i * step]]
        joint[i] = value
        total += value
        if value > highest:
            highest, partner = value, i
    return total, partner


@compiled
def expectation(
    sides: tuple[Int32, Int64, Int64],
    pairs: tuple[int, int],
    cells: tuple[Int32, Int32, Int64, bool],
    probabilities: tuple[Float64, Float64],
    prior_values: tuple[float, float, bool],
    results: tuple[Float64, Float64, Int32],
) -> tuple[float, float, float]:
    """One pass over the sentence pairs `pairs[0]` to `pairs[1]`: posteriors and best partners into `results`.

    Args:
        sides: (int32 [tokens] words of the generated side, int64 [N + 1] its sentences, int64 [N + 1] sentences of the
            given side).
        pairs: first and last (exclusive) sentence pair.
        cells: (index into the probabilities of every cell, index into the counts of every cell, int64 [N + 1] first
            cell of every pair, whether the given positions run slowest inside a pair).
        probabilities: translation probability of every parameter, and of every generated word given NULL.
        prior_values: as in `fill_prior`.
        results: (posterior sum of every counted pair, added to; posterior sum of NULL for every generated word, added
            to; int32 [tokens], set to the given position of highest posterior, -1 for NULL, the first at a tie).

    Returns:
        (natural log likelihood, posterior sum of NULL, posterior sum of the feature with j counted from 0).
    """
    generated, generated_offsets, given_offsets = sides
    cell_parameter, cell_count, cell_offsets, given_slowest = cells
    translation, null_translation = probabilities
    count, null_count, best = results
    longest = 0
    for p in range(pairs[0], pairs[1]):
        longest = max(longest, given_offsets[p + 1] - given_offsets[p])
    prior, joint = np.empty(longest), np.empty(longest)
    likelihood, null_sum, feature_sum = 0.0, 0.0, 0.0
    for p in range(pairs[0], pairs[1]):
        start = generated_offsets[p]
        m, n = generated_offsets[p + 1] - start, given_offsets[p + 1] - given_offsets[p]
        step_j, step_i = (1, m) if given_slowest else (n, 1)
        for j in range(m):
            word, first = generated[start + j], cell_offsets[p] + j * step_j
            null_prior = fill_prior(prior, j + 1, m, n, prior_values)
            null_joint = null_prior * null_translation[word]
            total, best[start + j] = fill_joint(
                joint, prior, n, null_joint, translation, (cell_parameter, first, step_i)
            )
            if total < LEAST_SUM:
                joint[:n], null_joint, total = prior[:n], null_prior, null_prior + prior[:n].sum()
                likelihood += math.log(LEAST_SUM)
            else:
                likelihood += math.log(total)
            null_sum += null_joint / total
            null_count[word] += null_joint / total
            for i in range(n):
                posterior = joint[i] / total
                count[cell_count[first + i * step_i]] += posterior
                feature_sum += log_prior(j, i + 1, m, n) * posterior
    return likelihood, null_sum, feature_sum


@compiled
def maximisation(count: Float64, row: Int32, rows: int, alpha: float) -> Float64:
    """Translation probabilities from expected counts, row by row.

    Args:
        count: float64 [parameters], expected counts.
        row: int32 [parameters], the given word of every parameter.
        rows: number of given words.
        alpha: concentration of the symmetric Dirichlet prior (variational Bayes, exp(digamma(c + alpha) -
            digamma(sum of c + alpha))); 0 for maximum likelihood, c / sum of c.

    Returns:
        float64 [parameters]; a row without any count has probability 0.
    """
    total = np.zeros(rows)
    for k in range(len(count)):
        total[row[k]] += count[k] + alpha
    result = np.zeros(len(count))
    if alpha > 0.0:
        for r in range(rows):
            total[r] = digamma(total[r]) if total[r] > 0.0 else 0.0
        for k in range(len(count)):
            result[k] = math.exp(digamma(count[k] + alpha) - total[row[k]])
        return result
    for k in range(len(count)):
        if total[row[k]] > 0.0:
            result[k] = count[k] / total[row[k]]
    return result


@compiled
def count_parameters(
    occurrences: tuple[Int64, Int64], target: Int32, target_offsets: Int64, target_words: int
) -> Int64:
    """Distinct target words seen with every source word: int64 [source words + 1], first parameter of each.

    Args:
        occurrences: (int64 [source words + 1] boundaries, int64 [tokens] sentence pair of every occurrence), grouped by
            source word.
        target: int32 [tokens], target words.
        target_offsets: int64 [N + 1], target sentences.
        target_words: number of target words.
    """
    bounds, pair_of = occurrences
    seen_by = np.full(target_words, -1, dtype=np.int64)
    first = np.zeros(len(bounds), dtype=np.int64)
    for s in range(len(bounds) - 1):
        found = first[s]
        for k in range(bounds[s], bounds[s + 1]):
            p = pair_of[k]
            for j in range(target_offsets[p], target_offsets[p + 1]):
                if seen_by[target[j]] != s:
                    seen_by[target[j]] = s
                    found += 1
        first[s + 1] = found
    return first


@compiled
def fill_cells(
    occurrences: tuple[Int64, Int64, Int32],
    target: Int32,
    offsets: tuple[Int64, Int64, Int64],
    parameters: tuple[Int32, Int32],
    target_words: int,
    cell_parameter: Int32,
) -> None:
    """Number the distinct word pairs by source word, then first occurrence, and write the number into every cell.

    Args:
        occurrences: as in `count_parameters`, and int32 [tokens] position of every occurrence in its sentence.
        target: int32 [tokens], target words.
        offsets: int64 [N + 1] each: source sentences, target sentences, first cell of every pair; the cell of source
            position i and target position j is `first + j * n + i`.
        parameters: int32 [parameters] each, filled: source word and target word.
        target_words: number of target words.
        cell_parameter: int32 [cells], filled.
    """
    bounds, pair_of, position_of = occurrences
    source_offsets, target_offsets, cell_offsets = offsets
    parameter_source, parameter_target = parameters
    seen_by = np.full(target_words, -1, dtype=np.int64)
    number = np.zeros(target_words, dtype=np.int64)
    found = 0
    for s in range(len(bounds) - 1):
        for k in range(bounds[s], bounds[s + 1]):
            p = pair_of[k]
            n = source_offsets[p + 1] - source_offsets[p]
            cell = cell_offsets[p] + position_of[k]
            for j in range(target_offsets[p], target_offsets[p + 1]):
                word = target[j]
                if seen_by[word] != s:
                    seen_by[word] = s
                    number[word] = found
                    parameter_source[found] = s
                    parameter_target[found] = word
                    found += 1
                cell_parameter[cell] = number[word]
                cell += n
