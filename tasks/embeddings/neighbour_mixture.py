"""Rows as mixtures of the nearest of other rows (WECHSEL, OFA)."""

import numpy as np
import torch
from numpy.typing import NDArray

from tasks.embeddings.neighbours import nearest_neighbours
from tasks.embeddings.sparse_rows import SparseRows


def neighbour_mixture(
    new: NDArray[np.float32], old: NDArray[np.float32], usable: NDArray[np.bool_], count: int, temperature: float
) -> SparseRows:
    """For each row of `new`, softmax(cosine / temperature) over the `count` rows of `old` with the greatest cosine.

    Args:
        new: float32 [n, d]; a row of zeros gets no entries.
        old: float32 [m, d]; rows of zeros are nobody's neighbours.
        usable: bool [m]: which rows of `old` may be neighbours.
        count: neighbours of each row; all there are where they are fewer.
        temperature: greater than 0.

    Returns:
        n rows over `old`; each that has entries sums to 1.
    """
    candidates = np.flatnonzero(usable & np.any(old != 0, axis=1))
    rows = np.flatnonzero(np.any(new != 0, axis=1))
    places, cosines = nearest_neighbours(
        torch.from_numpy(new[rows]), torch.from_numpy(np.ascontiguousarray(old[candidates])), count
    )
    scores = cosines.astype(np.float64) / temperature
    weights = np.exp(scores - scores.max(axis=1, keepdims=True, initial=-np.inf))
    weights /= weights.sum(axis=1, keepdims=True)
    at = np.repeat(rows, places.shape[1])
    return SparseRows.from_coo(at, candidates[places].ravel(), weights.ravel(), len(new))
