"""Lengths of rows: measured, and scaled to the distribution of another table's."""

import numpy as np
import torch
from numpy.typing import NDArray

_ROWS = 4096


def row_norms(table: torch.Tensor) -> NDArray[np.float64]:
    """Euclidean length of each row, summed in float64: float64 [rows].

    Args:
        table: [rows, h], floating.
    """
    result = np.empty(len(table))
    for start in range(0, len(table), _ROWS):
        block = table[start : start + _ROWS].to(torch.float32).numpy()
        result[start : start + _ROWS] = np.sqrt(np.einsum("rh,rh->r", block, block, dtype=np.float64))
    return result


def match_norms(table: torch.Tensor, rows: NDArray[np.int64], source_norms: NDArray[np.float64]) -> None:
    """Scale `rows` of `table`, in place, so that their lengths are distributed as `source_norms`.

    With R rows and rank(r) = 0 ... R - 1 the place of row r's length among them (equal lengths: in the rows' order),
    the row gets the length Q((rank(r) + 1/2) / R), where Q is the quantile function of the source rows' lengths, linear
    between order statistics. The direction of a row and the order of the lengths stay. Rows of zeros stay zero, and
    source rows of zeros are left out of Q.

    Args:
        table: [target size, h].
        rows: ids of the rows to scale.
        source_norms: float64 [source rows].
    """
    known = source_norms[source_norms > 0]
    if not len(rows) or not len(known):
        return
    norms = row_norms(table[torch.from_numpy(rows)])
    made, norms = rows[norms > 0], norms[norms > 0]
    rank = np.empty(len(made))
    rank[np.argsort(norms, kind="stable")] = np.arange(len(made))
    scale = np.quantile(known, (rank + 0.5) / max(len(made), 1)) / norms
    for start in range(0, len(made), _ROWS):
        ids = torch.from_numpy(made[start : start + _ROWS])
        factors = torch.from_numpy(scale[start : start + _ROWS].astype(np.float32))
        table[ids] = (table[ids].to(torch.float32) * factors[:, None]).to(table.dtype)
