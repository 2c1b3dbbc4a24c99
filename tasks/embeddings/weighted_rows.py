"""The product of sparse rows and a dense table, in bounded memory."""

import numpy as np
import torch
from torch.nn.functional import embedding_bag

from tasks.embeddings.sparse_rows import SparseRows

COLUMNS = 256
_COPIED_ROWS = 4096


def weighted_rows(
    rows: SparseRows, table: torch.Tensor, columns: int = COLUMNS, out: torch.Tensor | None = None
) -> torch.Tensor:
    """Row r of the result is the sum over r's entries of weight times `table[id]`.

    Computed in float32, `columns` columns at a time: beside the table and the result, two blocks
    [table rows, columns] and [rows, columns] of float32 are held. A row with one entry, of weight 1, is a copy of its
    source, bit for bit (a sum would make 0 of -0 and round float64).

    Args:
        rows: the weights.
        table: [ids, h] or [ids], any floating type.
        columns: columns in a block.
        out: where the result goes, of its shape and the table's type; None: a new tensor.

    Returns:
        [rows, h] or [rows], the table's type.

    Raises:
        ValueError: a weight is on a row that `table` does not have.
    """
    if len(rows.ids) and int(rows.ids.max()) >= table.shape[0]:
        raise ValueError(f"the mapping reads row {int(rows.ids.max())}, the table has {table.shape[0]} rows")
    if table.ndim == 1:
        return weighted_rows(rows, table[:, None], columns, None if out is None else out[:, None])[:, 0]
    ids = torch.from_numpy(rows.ids.astype("int64"))
    weights = torch.from_numpy(rows.weights.astype("float32"))
    offsets = torch.from_numpy(rows.indptr)
    result = torch.empty(len(rows), table.shape[1], dtype=table.dtype) if out is None else out
    for start in range(0, table.shape[1], columns):
        block = table[:, start : start + columns].to(dtype=torch.float32).contiguous()
        result[:, start : start + columns] = embedding_bag(
            ids, block, offsets, mode="sum", per_sample_weights=weights, include_last_offset=True
        )
    _copy(rows, table, result)
    return result


def _copy(rows: SparseRows, table: torch.Tensor, result: torch.Tensor) -> None:
    single = np.flatnonzero(rows.counts() == 1)
    single = single[rows.weights[rows.indptr[single]] == 1]
    for start in range(0, len(single), _COPIED_ROWS):
        part = single[start : start + _COPIED_ROWS]
        sources = torch.from_numpy(rows.ids[rows.indptr[part]].astype("int64"))
        result[torch.from_numpy(part)] = table[sources].to(result.dtype)
