"""Weighted choice with Zipf-like weights."""

from bisect import bisect
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Generic, TypeVar

T = TypeVar("T")


class Choice(Generic[T]):
    """Items with weights, drawn by one uniform number.

    Attributes:
        items: what can be drawn, in the order given.
    """

    __slots__ = ("_cumulative", "_last", "_total", "items")

    def __init__(self, items: Sequence[T], weights: Sequence[float]) -> None:
        """Keep `items` with their `weights` (same length, positive, at least one).

        Raises:
            ValueError: nothing to choose from, or lengths that differ.
        """
        if not items or len(items) != len(weights):
            raise ValueError(f"a choice needs as many weights as items and at least one: {len(items)}, {len(weights)}")
        self.items = tuple(items)
        self._cumulative = list(accumulate(weights))
        self._total = self._cumulative[-1]
        self._last = len(self.items) - 1

    def draw(self, random: Callable[[], float]) -> T:
        """One item; `random` gives a number in [0, 1)."""
        return self.items[min(bisect(self._cumulative, random() * self._total), self._last)]


def zipf_weight(rank: int, offset: float = 2.7) -> float:
    """Zipf-Mandelbrot weight 1 / (rank + offset) of the word at `rank`, counted from 0."""
    return 1.0 / (rank + 1 + offset)


def zipf_choice(items: Sequence[T]) -> Choice[T]:
    """A choice in which earlier items are more frequent, by `zipf_weight`."""
    return Choice(items, [zipf_weight(rank) for rank in range(len(items))])
