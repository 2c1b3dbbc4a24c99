"""Sums over pairs of numbers, in memory bounded by the distinct pairs."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tasks.alignment.links import Int64, Integers

Float64 = npt.NDArray[np.float64]
COMPACT_ROWS = 4 * 2**20  # rows that may wait to be summed; more once there are more distinct pairs


@dataclass
class PairSums:
    """Adds up rows of C values by a pair (first, second) of numbers from 0; the order of adding decides the last bit.

    Attributes:
        seconds: bound of the second number.
        columns: C.
    """

    seconds: int
    columns: int
    _keys: list[Int64] = field(default_factory=list)
    _values: list[Float64] = field(default_factory=list)
    _waiting: int = 0
    _summed: int = 0

    def add(self, first: Integers, second: Integers, values: Float64) -> None:
        """Add rows: integers [R] and [R], float64 [R, C]."""
        self._keys.append(first.astype(np.int64) * self.seconds + second)
        self._values.append(values)
        self._waiting += len(first)
        if self._waiting >= max(COMPACT_ROWS, self._summed):
            self._compact()

    def _compact(self) -> None:
        keys = np.concatenate(self._keys) if self._keys else np.zeros(0, dtype=np.int64)
        values = np.concatenate(self._values) if self._values else np.zeros((0, self.columns))
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        opens = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])) if len(keys) else np.zeros(0, dtype=np.int64)
        sums = np.add.reduceat(values[order], opens, axis=0) if len(keys) else values
        self._keys, self._values = [keys[opens]], [sums]
        self._waiting, self._summed = 0, len(opens)

    def result(self) -> tuple[Int64, Int64, Float64]:
        """Distinct pairs, ordered by first, then second, and their sums: int64 [P], int64 [P], float64 [P, C]."""
        self._compact()
        keys = self._keys[0]
        return keys // self.seconds, keys % self.seconds, self._values[0]
