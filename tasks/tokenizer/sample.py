"""A random sample of the texts of a Parquet file, read once and never held in memory."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from storage.tables import read_batches


def count_rows(path: Path) -> int:
    """Rows of the Parquet file `path`, from its footer."""
    return int(pq.read_metadata(path).num_rows)


def sample_texts(path: Path, limit: int, seed: int, column: str = "text") -> Iterator[list[str]]:
    """Exactly min(`limit`, rows) texts of the column `column`, in file order, each set of rows equally likely.

    Selection sampling by batches (Fan et al. 1962): how many rows of a batch are taken is hypergeometric given what is
    left to take and what is left to read, so one pass with a fixed memory gives a simple random sample.

    Args:
        path: Parquet file.
        limit: most texts taken.
        seed: seed of the choice; without effect when every row is taken.
        column: name of the column of the texts.

    Yields:
        The texts taken from each batch of rows.
    """
    left = count_rows(path)
    wanted = min(limit, left)
    rng = np.random.default_rng(seed)
    for batch in read_batches(path, [column]):
        rows = batch.num_rows
        taken = rows if wanted == left else int(rng.hypergeometric(wanted, left - wanted, rows))
        left -= rows
        wanted -= taken
        texts = batch.column(0)
        if taken < rows:
            chosen = np.sort(rng.choice(rows, taken, replace=False))
            texts = texts.take(pa.array(chosen))
        if taken:
            yield texts.to_pylist()
