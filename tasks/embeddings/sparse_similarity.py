"""Sparse weights of many rows over many anchors, by cosine, in bounded memory."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from tasks.contract import InputError
from tasks.embeddings.sparse_rows import SparseRows
from tasks.embeddings.unit_rows import unit_rows

BLOCK_BYTES = 2**27
_GROUPS = 512  # of neighbouring columns, or a few more
_ROUNDING = 1e-5
_OUT_OF_REACH = -4.0  # at least 1 under any cosine that has weight: the threshold is at least the greatest cosine - 1


def sparsemax_cosines(
    rows: NDArray[np.float32], anchors: NDArray[np.float32], block_bytes: int = BLOCK_BYTES
) -> SparseRows:
    """For each row, sparsemax of its cosines to all anchors (Martins and Astudillo 2016; FOCUS, section 3).

    sparsemax(z) = max(z - tau, 0) with the tau that makes the sum 1. Beside the anchors at length 1, one block of
    cosines of `block_bytes` is held, and those of its cosines that may get weight: usually a few hundred of a row,
    never more than ten times the block.

    Args:
        rows: float32 [n, d], no row of zeros.
        anchors: float32 [m, d], no row of zeros; m at least 1 unless n is 0.
        block_bytes: size of a block of cosines.

    Returns:
        n rows of (anchor, weight); each sums to 1.

    Raises:
        InputError: entmax is not installed.
    """
    frame = unit_rows(anchors).T
    size = max(1, block_bytes // (4 * max(1, len(anchors))))
    block = torch.empty(min(size, len(rows)), len(anchors))
    none = np.zeros(0, dtype=np.int64)
    parts = [(none, none, np.zeros(0))]
    for start in range(0, len(rows), size):
        units = unit_rows(rows[start : start + size])
        row, anchor, weight = _sparsemax(torch.mm(units, frame, out=block[: len(units)]))
        parts.append((row + start, anchor, weight))
    found = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return SparseRows.from_coo(found[0], found[1], found[2], len(rows))


def _sparsemax(scores: torch.Tensor) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """(row, column, weight) of the entries of each row's sparsemax that are greater than 0.

    The threshold of a part of a row is never above that of the whole row: the part's excess over the whole row's
    threshold sums to 1 at most. So all that has weight lies above the threshold of the greatest cosines of groups of
    columns, which one pass finds, and only what lies above it is sorted.
    """
    sparsemax = _entmax_sparsemax()
    width = max(1, scores.shape[1] // _GROUPS)
    whole = scores.shape[1] // width
    maxima = scores[:, : whole * width].view(-1, whole, width).amax(dim=2).double()
    bound = (maxima.amax(dim=1) - sparsemax(maxima, dim=1).amax(dim=1) - _ROUNDING).float()
    row, column = torch.nonzero(scores > bound[:, None], as_tuple=True)
    counts = torch.bincount(row, minlength=len(scores))
    place = torch.arange(len(row)) - (torch.cumsum(counts, dim=0) - counts)[row]
    values = torch.full((len(scores), int(counts.max())), _OUT_OF_REACH, dtype=torch.float64)
    values[row, place] = scores[row, column].double()
    weights = sparsemax(values, dim=1)[row, place]
    kept = weights > 0
    return row[kept].numpy(), column[kept].numpy(), weights[kept].numpy()


def _entmax_sparsemax() -> Callable[..., torch.Tensor]:
    try:
        from entmax import sparsemax
    except ImportError as error:
        raise InputError("sparsemax needs entmax: pip install 'langadapt[vectors]'") from error
    found: Callable[..., torch.Tensor] = sparsemax
    return found
