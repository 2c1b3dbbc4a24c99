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
from pathlib import Path

import numpy as np

from tasks.alignment.compiled import compiled
from tasks.alignment.links import Int32, Int64
from tasks.alignment.sums import MEMORY, Float64, KeySums

EXPANDED_ROWS = 2**15  # token pairs of one step: they stay in the processor's cache


@dataclass(frozen=True)
class UnitTokens:
    """Token ids of units.

    Attributes:
        ids: int32 [K].
        first: int64 [units + 1], first id of each unit.
    """

    ids: Int32
    first: Int64


@compiled
def _expand(
    pairs: tuple[Int32, Int32, Float64],
    source: tuple[Int32, Int64],
    target: tuple[Int32, Int64],
    start: tuple[int, int],
    source_size: int,
    rows: tuple[Int64, Float64],
) -> tuple[int, int, int]:
    """Fill `rows` with the token pairs of word pairs, until they are full or the word pairs are done.

    Args:
        pairs: int32 [R] source units, int32 [R] target units, float64 [R] counts.
        source: token ids and first id of each source unit.
        target: of each target unit.
        start: (word pair, token pair within it) to go on with.
        source_size: bound of the source token ids.
        rows: int64 [B] keys (target id * source_size + source id), float64 [B, 2] counts all-to-all and in order.

    Returns:
        (word pair, token pair within it) to go on with, number of rows filled.
    """
    (keys, values), (pair, done), filled = rows, start, 0
    while pair < len(pairs[2]):
        i0, j0, c = source[1][pairs[0][pair]], target[1][pairs[1][pair]], pairs[2][pair]
        n, m = source[1][pairs[0][pair] + 1] - i0, target[1][pairs[1][pair] + 1] - j0
        for within in range(done, m * n):
            if filled == len(keys):
                return pair, within, filled
            j, i = within // n, within % n
            # In units of 1/m of a source token: target token j covers [j*n, (j+1)*n), source token i [i*m, (i+1)*m).
            overlap = min((j + 1) * n, (i + 1) * m) - max(j * n, i * m)
            keys[filled] = np.int64(target[0][j0 + j]) * source_size + source[0][i0 + i]
            values[filled, 0] = c / n
            values[filled, 1] = c * max(overlap, 0) / n
            filled += 1
        pair, done = pair + 1, 0
    return pair, 0, filled


class TokenCounts:
    """Counts of token pairs, added up over blocks of word pairs.

    Each count is the sum over the word pairs in the order in which they were added, however they were cut into blocks.
    """

    def __init__(
        self, source: UnitTokens, target: UnitTokens, folder: Path | None = None, memory: int = MEMORY
    ) -> None:
        """No counts yet.

        Args:
            source: tokens of the source units.
            target: tokens of the target units.
            folder: where what exceeds `memory` is written; None: a temporary folder.
            memory: bytes; where it does not do, it decides the last bits of the sums.
        """
        self._source, self._target = source, target
        self._source_size = int(source.ids.max(initial=0)) + 1
        self._sums = KeySums(2, np.float64, folder, memory)

    def add(self, source_units: Int32, target_units: Int32, counts: Float64) -> None:
        """Add pairs of units, each [R], with their counts.

        Raises:
            ValueError: a unit has no tokens listed, because it is no unit of these tables.
        """
        for side, units, tokens in (("source", source_units, self._source), ("target", target_units, self._target)):
            known = len(tokens.first) - 1
            if len(units) and not 0 <= units.min() <= units.max() < known:
                raise ValueError(f"a {side} unit outside the {known} known ones: {units.min()} to {units.max()}")
        keys, values = np.empty(EXPANDED_ROWS, dtype=np.int64), np.empty((EXPANDED_ROWS, 2))
        pair = within = 0
        while pair < len(counts):
            pair, within, filled = _expand(
                (source_units, target_units, counts),
                (self._source.ids, self._source.first),
                (self._target.ids, self._target.first),
                (pair, within),
                self._source_size,
                (keys, values),
            )
            self._sums.add(keys[:filled], values[:filled])

    def result(self) -> Iterator[tuple[Int32, Int32, Float64]]:
        """Blocks ordered by target, then source: int32 [R] target ids, int32 [R] source ids, float64 [R, 2] counts
        all-to-all and in order. Nothing may be added afterwards.
        """
        for keys, sums in self._sums.result():
            target, source = np.divmod(keys, self._source_size)
            yield target.astype(np.int32), source.astype(np.int32), sums
