"""Where a vocabulary adapter starts: its first weights, and for a sparse one the entries that it may use."""

import numpy as np
import torch
from numpy.typing import NDArray

from tasks.embeddings.sparse_rows import SparseRows


def union(start: SparseRows, *others: SparseRows) -> SparseRows:
    """The weights of `start` on all entries of `start` and `others`; entries that `start` lacks begin at 0.

    Args:
        start: [target tokens, source tokens], such as a trans-tokenization mapping.
        others: rows of the same number, of which only the entries count (a mean mapping, `nearest`).

    Raises:
        ValueError: another number of rows.
    """
    if any(len(other) != len(start) for other in others):
        raise ValueError(f"supports of {[len(other) for other in others]} rows do not fit a start of {len(start)} rows")
    everything = (start, *others)
    return SparseRows.from_coo(
        np.concatenate([rows.row_of_entry() for rows in everything]),
        np.concatenate([rows.ids for rows in everything]),
        np.concatenate([start.weights, np.zeros(sum(len(other.ids) for other in others))]),
        len(start),
    )


@torch.no_grad()
def nearest(new: torch.Tensor, old: torch.Tensor, count: int, block: int = 1024) -> SparseRows:
    """For each new row the `count` old rows of the highest cosine similarity, with weight 0: a support for `union`.

    Args:
        new: [target tokens, d], such as an initial embedding table.
        old: [source tokens, d].
        count: entries a row, at most the source tokens.
        block: rows compared at a time; [block, source tokens] float32 is held.
    """
    directions = torch.nn.functional.normalize(old.float(), dim=1).T
    parts = [
        (torch.nn.functional.normalize(rows.float(), dim=1) @ directions).topk(count, dim=1).indices.sort(dim=1).values
        for rows in torch.split(new, block)
    ]
    ids = torch.cat(parts).flatten().cpu().numpy().astype(np.int32)
    indptr = np.arange(len(new) + 1, dtype=np.int64) * count
    return SparseRows(indptr, ids, np.zeros(len(ids)))


def with_drawn_rows(start: SparseRows, source_size: int, draws: int, seed: int) -> SparseRows:
    """`start` with every empty row given `draws` random source tokens and weights u / Σu, u uniform between 0 and 1.

    The sparse counterpart of the third initial row of VocADT (Han et al. 2025, section 3.2), which has an entry for
    every source token. A source token drawn twice gets both weights.
    """
    empty = np.flatnonzero(start.counts() == 0)
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, source_size, size=(len(empty), draws))
    weights = _uniform(rng, len(empty), draws)
    return SparseRows.from_coo(
        np.concatenate([start.row_of_entry(), np.repeat(empty, draws)]),
        np.concatenate([start.ids, ids.ravel()]),
        np.concatenate([start.weights, weights.ravel()]),
        len(start),
    )


def dense_start(start: SparseRows, source_size: int, seed: int, block: int = 1024) -> torch.Tensor:
    """The dense matrix of `start`; an empty row gets u / Σu over all source tokens, u uniform between 0 and 1.

    With the mean mapping as `start` these are the initial rows of VocADT (Han et al. 2025, section 3.2): one-hot for
    shared tokens, 1/m for tokens of m pieces, else random.

    Returns:
        [target tokens, source tokens] float32.
    """
    start.check(source_size)
    dense = torch.zeros(len(start), source_size)
    rows, ids = torch.from_numpy(start.row_of_entry()), torch.from_numpy(start.ids.astype(np.int64))
    dense[rows, ids] = torch.from_numpy(start.weights.astype(np.float32))
    empty = np.flatnonzero(start.counts() == 0)
    rng = np.random.default_rng(seed)
    for first in range(0, len(empty), block):
        some = empty[first : first + block]
        dense[torch.from_numpy(some)] = torch.from_numpy(_uniform(rng, len(some), source_size).astype(np.float32))
    return dense


def _uniform(rng: np.random.Generator, rows: int, columns: int) -> NDArray[np.float64]:
    """Random rows, each divided by its sum."""
    drawn = 1.0 - rng.random((rows, columns))  # above 0, so that no sum is
    return np.asarray(drawn / drawn.sum(axis=1, keepdims=True))
