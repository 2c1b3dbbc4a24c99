"""The old tokens whose embeddings point most nearly the way a new token's does."""

import numpy as np
import torch
from numpy.typing import NDArray

_ROWS = 2048
_COLUMNS = 8192


def nearest_neighbours(
    new: torch.Tensor, old: torch.Tensor, count: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """For each row of `new`, the `count` rows of `old` with the greatest cosine.

    Blocks of [2048, h], [8192, h] and [2048, 8192] of float32 are held beside the tables. Rows of zeros, and rows that
    are not finite, have the cosine 0 to everything. Of equal cosines the smaller id comes first.

    Args:
        new: [n, h], floating.
        old: [m, h], floating.
        count: neighbours of each row; all of `old` where there are fewer.

    Returns:
        (ids int64 [n, count], cosines float32 [n, count]), nearest first.
    """
    count = min(count, len(old))
    ids = np.zeros((len(new), count), dtype=np.int64)
    cosines = np.zeros((len(new), count), dtype=np.float32)
    for start in range(0, len(new), _ROWS):
        block = slice(start, start + _ROWS)
        ids[block], cosines[block] = _nearest(_unit(new[block]), old, count)
    return ids, cosines


def _nearest(rows: torch.Tensor, old: torch.Tensor, count: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    best_ids = np.zeros((len(rows), 0), dtype=np.int64)
    best = np.zeros((len(rows), 0), dtype=np.float32)
    for start in range(0, len(old), _COLUMNS):
        scores = rows @ _unit(old[start : start + _COLUMNS]).T
        values, places = _greatest(scores, min(count, scores.shape[1]))
        ids = np.concatenate([best_ids, places.numpy() + start], axis=1)
        cosines = np.concatenate([best, values.numpy()], axis=1)
        order = np.lexsort((ids, -cosines), axis=1)[:, :count]
        best_ids = np.take_along_axis(ids, order, axis=1)
        best = np.take_along_axis(cosines, order, axis=1)
    return best_ids, best


def _greatest(scores: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The `count` greatest of each row and their places; of equal ones the first (`torch.topk` takes any of them)."""
    values, places = torch.topk(scores, count, dim=1)
    tied = torch.nonzero((scores >= values[:, -1:]).sum(dim=1) > count)[:, 0]
    if len(tied):
        ordered = torch.sort(scores[tied], dim=1, descending=True, stable=True)
        values[tied], places[tied] = ordered.values[:, :count], ordered.indices[:, :count]
    return values, places


def _unit(table: torch.Tensor) -> torch.Tensor:
    rows = table.to(torch.float32)
    norm = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    good = torch.isfinite(norm) & (norm > 0)
    return torch.where(good, rows / norm, torch.zeros_like(rows))
