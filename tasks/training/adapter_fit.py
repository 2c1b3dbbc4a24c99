"""Rows given as numbers as combinations of a few old rows, for adapters to begin with."""

import numpy as np
import torch

from tasks.embeddings.sparse_rows import SparseRows
from tasks.training.adapter_support import nearest

_BLOCK = 256
_RIDGE = 1e-6


@torch.no_grad()
def fitted(numbers: torch.Tensor, old: torch.Tensor, count: int) -> SparseRows:
    """For each row of `numbers` its `count` nearest old rows (by cosine), with the weights of least squares.

    Weights may be negative. A ridge of a millionth of the old rows' mean squared length makes equal old rows share a
    weight.

    Args:
        numbers: [rows, d].
        old: [source tokens, d].
        count: entries a row, at most the source tokens.
    """
    support = nearest(numbers, old, count)
    ids = torch.from_numpy(support.ids.astype(np.int64)).view(len(numbers), count).to(old.device)
    weights = [
        _weights(rows, old[some])
        for rows, some in zip(torch.split(numbers, _BLOCK), torch.split(ids, _BLOCK), strict=True)
    ]
    return SparseRows(support.indptr, support.ids, torch.cat(weights).flatten().cpu().numpy())


def _weights(rows: torch.Tensor, near: torch.Tensor) -> torch.Tensor:
    """float64 [rows, count] for rows [rows, d] and their old rows [rows, count, d]."""
    rows, near = rows.double(), near.double()
    products = near @ near.mT
    ridge = _RIDGE * products.diagonal(dim1=1, dim2=2).mean(dim=1).clamp_min(torch.finfo(torch.float64).tiny)
    products.diagonal(dim1=1, dim2=2).add_(ridge[:, None])
    solution: torch.Tensor = torch.linalg.solve(products, (near @ rows[:, :, None]))
    return solution[:, :, 0]
