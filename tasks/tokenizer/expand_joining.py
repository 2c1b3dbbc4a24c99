"""A text cut into symbols, and what joining two neighbouring symbols everywhere does to it."""

from collections.abc import Sequence
from itertools import pairwise


class Joining:
    """The distinct units of a text as lists of symbols, with the counts of symbols and of neighbouring pairs.

    A join touches only the units that hold the pair, as in training BPE.

    Args:
        units: the symbols of each unit.
        weights: how often each unit is there.
        symbols: symbols are numbers below this one.
    """

    def __init__(self, units: list[list[int]], weights: list[int], symbols: int) -> None:
        self._units, self._weights = units, weights
        self._where: dict[tuple[int, int], set[int]] = {}
        self._pairs: dict[tuple[int, int], int] = {}
        self._counts = [0] * symbols
        for number in range(len(units)):
            self._account(number, 1)

    def count(self, symbols: Sequence[int]) -> int:
        """How often these symbols stand in a row."""
        if len(symbols) == 1:
            return self._counts[symbols[0]]
        if len(symbols) == 2:
            return self._pairs.get((symbols[0], symbols[1]), 0)
        places = [self._where.get(pair, set()) for pair in pairwise(symbols)]
        wanted, size = list(symbols), len(symbols)
        found = 0
        for number in min(places, key=len):
            unit = self._units[number]
            hits = sum(unit[i : i + size] == wanted for i in range(len(unit) - size + 1))
            found += hits * self._weights[number]
        return found

    def join(self, left: int, right: int) -> int:
        """Make one new symbol of every `left` with `right` behind it, from the left; returns the symbol."""
        symbol = len(self._counts)
        self._counts.append(0)
        for number in sorted(self._where.get((left, right), ())):
            self._account(number, -1)
            unit, joined, i = self._units[number], [], 0
            while i < len(unit):
                hit = unit[i] == left and i + 1 < len(unit) and unit[i + 1] == right
                joined.append(symbol if hit else unit[i])
                i += 2 if hit else 1
            self._units[number] = joined
            self._account(number, 1)
        return symbol

    def _account(self, number: int, sign: int) -> None:
        unit, weight = self._units[number], sign * self._weights[number]
        for symbol in unit:
            self._counts[symbol] += weight
        for pair in pairwise(unit):
            self._pairs[pair] = self._pairs.get(pair, 0) + weight
            if sign > 0:
                self._where.setdefault(pair, set()).add(number)
            else:
                self._where[pair].discard(number)
