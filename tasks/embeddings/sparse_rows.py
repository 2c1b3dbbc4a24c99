"""Compressed sparse rows: the arithmetic that token mappings need."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class SparseRows:
    """Rows of (id, weight) entries.

    Attributes:
        indptr: int64 [rows + 1].
        ids: int32 [entries], ascending in each row.
        weights: float64 [entries].
    """

    indptr: NDArray[np.int64]
    ids: NDArray[np.int32]
    weights: NDArray[np.float64]

    @classmethod
    def from_coo(
        cls,
        rows: NDArray[np.integer[Any]],
        ids: NDArray[np.integer[Any]],
        weights: NDArray[np.floating[Any]],
        size: int,
    ) -> "SparseRows":
        """The `size` rows made of (row, id, weight) triples in any order; weights of equal (row, id) are added.

        Raises:
            ValueError: arrays of different lengths, or a row out of range.
        """
        rows, ids, weights = (np.asarray(values) for values in (rows, ids, weights))
        if not rows.shape == ids.shape == weights.shape or rows.ndim != 1:
            raise ValueError(f"rows, ids and weights differ in shape: {rows.shape}, {ids.shape}, {weights.shape}")
        if len(rows) and not 0 <= rows.min() <= rows.max() < size:
            raise ValueError(f"target ids must be 0 to {size - 1}, got {rows.min()} to {rows.max()}")
        order = np.lexsort((ids, rows))
        rows, ids = rows[order].astype(np.int64), ids[order].astype(np.int64)
        values = weights[order].astype(np.float64)
        first = np.ones(len(rows), dtype=bool)
        first[1:] = (rows[1:] != rows[:-1]) | (ids[1:] != ids[:-1])
        starts = np.flatnonzero(first)
        summed = np.add.reduceat(values, starts) if len(starts) else values
        counts = np.bincount(rows[starts], minlength=size)
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return cls(indptr, ids[starts].astype(np.int32), summed)

    def check(self, columns: int) -> None:
        """Raise ValueError unless the arrays fit together, ids are 0 to `columns` - 1 and weights are finite."""
        if len(self.indptr) == 0 or self.indptr[0] != 0 or np.any(np.diff(self.indptr) < 0):
            raise ValueError("indptr must start with 0 and not fall")
        if not int(self.indptr[-1]) == len(self.ids) == len(self.weights):
            raise ValueError(f"indptr ends with {self.indptr[-1]}, {len(self.ids)} ids, {len(self.weights)} weights")
        if len(self.ids) and not 0 <= self.ids.min() <= self.ids.max() < columns:
            raise ValueError(f"source ids must be 0 to {columns - 1}, got {self.ids.min()} to {self.ids.max()}")
        if not np.all(np.isfinite(self.weights)):
            raise ValueError("weights must be finite numbers")

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def counts(self) -> NDArray[np.int64]:
        """Entries of each row: int64 [rows]."""
        return np.diff(self.indptr)

    def row_of_entry(self) -> NDArray[np.int64]:
        """The row of each entry: int64 [entries]."""
        return np.repeat(np.arange(len(self), dtype=np.int64), self.counts())

    def sums(self) -> NDArray[np.float64]:
        """Sum of each row's weights: float64 [rows]."""
        sums = np.bincount(self.row_of_entry(), weights=self.weights, minlength=len(self))
        return np.asarray(sums, dtype=np.float64)

    def positive(self) -> "SparseRows":
        """The rows without entries whose weight is 0 or less."""
        kept = self.weights > 0
        counts = np.bincount(self.row_of_entry()[kept], minlength=len(self))
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return SparseRows(indptr, self.ids[kept], self.weights[kept])

    def normalised(self) -> "SparseRows":
        """Each row divided by its sum; rows without entries stay empty."""
        return SparseRows(self.indptr, self.ids, self.weights / self.sums()[self.row_of_entry()])

    def take(self, rows: NDArray[np.integer[Any]]) -> "SparseRows":
        """The rows `rows`, in that order, repeated where a number is."""
        counts = self.counts()[rows]
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        entries = np.repeat(self.indptr[:-1][rows] - indptr[:-1], counts) + np.arange(indptr[-1])
        return SparseRows(indptr, self.ids[entries], self.weights[entries])
