"""Avg (baseline of trans-tokenization): shared tokens copied, all others the mean of the copied rows."""

import numpy as np
from numpy.typing import NDArray

from tasks.contract import InputError
from tasks.embeddings.copied_rows import OwnRows, assembled, copied_rows
from tasks.embeddings.dense_rows import DenseRows
from tasks.embeddings.registry import Ingredients, Initialiser

_BLOCK = 4096


def build(given: Ingredients) -> DenseRows:
    """Special and shared tokens copied; every other row is the mean of the rows so copied, one number a dimension.

    The mean is over target tokens: a source row that two of them copy counts twice. The rows are one row broadcast,
    for as weighted means they would need (new tokens) x (shared tokens) weights.

    Raises:
        InputError: no token is shared.
        ValueError: the source tables were not given.
    """
    if given.source_tables is None:
        raise ValueError("avg needs the source tables")
    tables = given.source_tables()
    copied = copied_rows(given.target, given.source, len(tables.input))
    if copied.special[copied.rows].all():
        raise InputError("mapping: 'avg' has nothing to average, the two tokenizers share no text; take 'mean'")
    rest = copied.rest
    ids = copied.source_ids[copied.rows]
    head = None if tables.head is None else _mean(tables.head, ids, len(rest))
    mapping = assembled(copied, [OwnRows("average", rest, None)], len(given.source), "average")
    return DenseRows(mapping, rest, _mean(tables.input, ids, len(rest)), head)


def _mean(table: NDArray[np.float32], ids: NDArray[np.int64], rows: int) -> NDArray[np.float32]:
    """The mean of `table[ids]`, float32 [rows, h], all rows one in memory."""
    total = np.zeros(table.shape[1])
    for start in range(0, len(ids), _BLOCK):
        total += table[ids[start : start + _BLOCK]].sum(axis=0, dtype=np.float64)
    return np.broadcast_to((total / len(ids)).astype(np.float32), (rows, table.shape[1]))


METHOD = Initialiser(
    name="avg", build=build, paper="baseline of trans-tokenization (Remy et al. 2024)", needs=("source_model",)
)
