"""Sparse weights of many rows over many anchors, by cosine, in bounded memory."""

import numpy as np
import torch
from numpy.typing import NDArray

from tasks.contract import InputError
from tasks.embeddings.sparse_rows import SparseRows

BLOCK_BYTES = 2**27
SUPPORT = 256


def sparsemax_cosines(
    rows: NDArray[np.float32], anchors: NDArray[np.float32], block_bytes: int = BLOCK_BYTES
) -> SparseRows:
    """For each row, sparsemax of its cosines to all anchors (Martins and Astudillo 2016; FOCUS, section 3).

    sparsemax(z) = max(z - tau, 0) with the tau that makes the sum 1. Beside the two tables at length 1, one block of
    cosines of `block_bytes` is held, whatever the number of rows and anchors.

    Args:
        rows: float32 [n, d], no row of zeros.
        anchors: float32 [m, d], no row of zeros; m at least 1.
        block_bytes: size of a block of cosines.

    Returns:
        n rows of (anchor, weight); each sums to 1.

    Raises:
        ValueError: there is no anchor.
    """
    if not len(anchors):
        raise ValueError("no token of both vocabularies has a vector: nothing to compare with")
    frame = _unit(anchors)
    size = max(1, block_bytes // (4 * len(anchors)))
    parts = []
    for start in range(0, len(rows), size):
        scores = _unit(rows[start : start + size]) @ frame.T
        row, anchor, weight = _sparsemax(scores, SUPPORT)
        parts.append((row + start, anchor, weight))
    if not parts:
        return SparseRows(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0))
    found = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return SparseRows.from_coo(found[0], found[1], found[2], len(rows))


def _sparsemax(scores: torch.Tensor, support: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """(row, column, weight) of sparsemax of each row that are greater than 0.

    Only the `support` greatest of a row are looked at. Where the least of them gets no weight, none of the others
    would; elsewhere the row is done again with four times as many.
    """
    try:
        from entmax import sparsemax
    except ImportError as error:
        raise InputError("sparsemax needs entmax: pip install 'langadapt[vectors]'") from error

    count = min(support, scores.shape[1])
    values, columns = torch.topk(scores, count, dim=1)
    weights = sparsemax(values.double(), dim=1)
    done = (weights[:, -1] <= 0) | (count == scores.shape[1])
    row, place = torch.nonzero((weights > 0) & done[:, None], as_tuple=True)
    found = (row.numpy(), columns[row, place].numpy(), weights[row, place].numpy())
    again = torch.nonzero(~done)[:, 0]
    if not len(again):
        return found
    rest = _sparsemax(scores[again], 4 * support)
    return (
        np.concatenate([found[0], again.numpy()[rest[0]]]),
        np.concatenate([found[1], rest[1]]),
        np.concatenate([found[2], rest[2]]),
    )


def _unit(rows: NDArray[np.float32]) -> torch.Tensor:
    return torch.nn.functional.normalize(torch.from_numpy(np.ascontiguousarray(rows, dtype=np.float32)), dim=1)
