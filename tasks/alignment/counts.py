"""From counts of word pairs to counts of token pairs (trans-tokenization: F. Remy et al., Trans-Tokenization and
Cross-lingual Vocabulary Transfers, COLM 2024, section 3).

A pair of units with m target tokens, n source tokens and count c is shared out by two rules:

- all-to-all: each of the m * n token pairs gets c / n;
- in order: target token j covers the source interval [j * n/m, (j + 1) * n/m) and gives c to the source tokens in it,
  in proportion to the overlap.

Each target token receives c in total under both; the count used is their mean. Counts are real numbers.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tasks.alignment.links import Int32, Int64, Integers, offsets_from_lengths
from tasks.alignment.sums import Float64, PairSums

EXPANDED_ROWS = 2 * 2**20  # token pairs of one step (more only where a single pair of units has more)


@dataclass(frozen=True)
class UnitTokens:
    """Token ids of units.

    Attributes:
        ids: int32 [K].
        first: int64 [units + 1], first id of each unit.
    """

    ids: Int32
    first: Int64


def expand(
    source_units: Integers,
    target_units: Integers,
    counts: Float64,
    source: UnitTokens,
    target: UnitTokens,
) -> tuple[Int32, Int32, Float64, Float64]:
    """The token pairs of pairs of units, with the count by each rule; token pairs may occur more than once.

    Args:
        source_units: [R].
        target_units: [R].
        counts: float64 [R].
        source: tokens of the source units.
        target: tokens of the target units.

    Returns:
        (int32 [T] source ids, int32 [T] target ids, float64 [T] all-to-all, float64 [T] in order), T = sum of m * n;
        pairs in their order, then target tokens, then source tokens.
    """
    n = source.first[source_units + 1] - source.first[source_units]
    m = target.first[target_units + 1] - target.first[target_units]
    sizes = m * n
    pair = np.repeat(np.arange(len(counts)), sizes)
    within = np.arange(len(pair), dtype=np.int64) - offsets_from_lengths(sizes)[:-1][pair]
    n, m, c = n[pair], m[pair], counts[pair]
    j, i = within // n, within % n
    # In units of 1/m of a source token: target token j covers [j*n, (j+1)*n), source token i is [i*m, (i+1)*m).
    overlap = np.minimum((j + 1) * n, (i + 1) * m) - np.maximum(j * n, i * m)
    in_order = c * np.maximum(overlap, 0) / n
    return (
        source.ids[source.first[source_units][pair] + i],
        target.ids[target.first[target_units][pair] + j],
        c / n,
        in_order,
    )


class TokenCounts:
    """Counts of token pairs, added up over batches of word pairs."""

    def __init__(self, source: UnitTokens, target: UnitTokens) -> None:
        self._source, self._target = source, target
        self._sums = PairSums(seconds=int(source.ids.max(initial=-1)) + 1, columns=2)

    def add(self, source_units: Integers, target_units: Integers, counts: Float64) -> None:
        """Add pairs of units with their counts: three arrays [R]."""
        for part in self._parts(source_units, target_units):
            source, target, all_to_all, in_order = expand(
                source_units[part], target_units[part], counts[part], self._source, self._target
            )
            self._sums.add(target, source, np.stack([all_to_all, in_order], axis=1))

    def _parts(self, source_units: Integers, target_units: Integers) -> Iterator[slice]:
        """Consecutive parts with at most `EXPANDED_ROWS` token pairs, or a single pair of units."""
        sizes = np.diff(self._source.first)[source_units] * np.diff(self._target.first)[target_units]
        ends = np.cumsum(sizes)
        start = 0
        while start < len(sizes):
            before = ends[start] - sizes[start]
            end = max(start + 1, int(np.searchsorted(ends, before + EXPANDED_ROWS, side="right")))
            yield slice(start, end)
            start = end

    def result(self) -> tuple[Int64, Int64, Float64, Float64]:
        """(target ids, source ids, all-to-all, in order), ordered by target, then source."""
        target, source, sums = self._sums.result()
        return target, source, sums[:, 0], sums[:, 1]
