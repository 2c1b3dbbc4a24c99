"""Equal rows of a table, found by their bytes."""

from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray

from tasks.embeddings.sparse_rows import SparseRows

_ROWS = 1024
_SEED = 0x5EED
_WORDS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def first_equal_row(table: torch.Tensor) -> NDArray[np.int64]:
    """For each row the first row with the same bytes (itself where there is none before): int64 [rows].

    Rows are compared by 64-bit sums of their words times random odd numbers; of 10^5 rows, two different ones get the
    same sum with probability 10^-9.

    Args:
        table: [rows, h], floating, of 16 bits or more.
    """
    words = table.contiguous().view(_WORDS[table.element_size()])
    factors = _factors(table.shape[1])
    sums = np.empty(len(table), dtype=np.uint64)
    for start in range(0, len(table), _ROWS):
        block = words[start : start + _ROWS].numpy().astype(np.int64).view(np.uint64)
        sums[start : start + _ROWS] = (block * factors).sum(axis=1, dtype=np.uint64)
    return first_of_equal(sums)


def first_equal_mapping_row(rows: SparseRows, representative: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each row the first with the same sources and weights (to float32), sources with equal rows taken as one.

    Args:
        rows: the weights.
        representative: int64 [sources]: the first source with the same row.

    Returns:
        int64 [rows].
    """
    ids = representative[rows.ids].astype(np.uint64)
    bits = rows.weights.astype(np.float32).view(np.uint32).astype(np.uint64)
    with np.errstate(over="ignore"):
        mixed = (ids * np.uint64(0x9E3779B97F4A7C15)) ^ ((bits + np.uint64(1)) * np.uint64(0xC2B2AE3D27D4EB4F))
        mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(29)
        sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(mixed, dtype=np.uint64)])
        return first_of_equal(sums[rows.indptr[1:]] - sums[rows.indptr[:-1]])


def first_of_equal(values: NDArray[np.uint64]) -> NDArray[np.int64]:
    """For each value the position of the first that is equal to it: int64 [values]."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    return first[inverse].astype(np.int64)


@lru_cache(maxsize=4)
def _factors(width: int) -> NDArray[np.uint64]:
    numbers = np.random.default_rng(_SEED).integers(0, 2**64, width, dtype=np.uint64, endpoint=False)
    return numbers | np.uint64(1)
