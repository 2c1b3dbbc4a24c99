"""Rows given as numbers as a file, dense.safetensors beside a mapping, read one table at a time.

Tensors: `rows` int64 [R], ascending target ids; `input` float32 [R, h]; `head` float32 [R, h], left out where the
source model's LM head is tied. A table whose rows are all one row (broadcast in memory) is stored as [1, h].
"""

from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tasks.contract import InputError
from tasks.embeddings.dense_rows import DenseRows

DENSE = "dense.safetensors"


def write_dense(folder: Path, dense: DenseRows) -> None:
    """Write the rows of `dense` into `folder`; its mapping is written by `write_mapping`."""
    from safetensors.numpy import save_file

    tables = {"input": dense.input} | ({} if dense.head is None else {"head": dense.head})
    # One row in memory (strides of 0) is one row in the file.
    stored = {name: np.ascontiguousarray(t[:1] if t.strides[0] == 0 else t) for name, t in tables.items()}
    save_file({"rows": np.ascontiguousarray(dense.rows), **stored}, folder / DENSE)


def read_dense_ids(folder: Path, target_size: int) -> NDArray[np.int64]:
    """The rows given as numbers in `folder`: int64, ascending; none where the mapping has no such file.

    Raises:
        InputError: the file is damaged or belongs to another mapping.
    """
    if not (folder / DENSE).is_file():
        return np.zeros(0, dtype=np.int64)
    ids = _read(folder, "rows")
    if (
        ids is None
        or ids.ndim != 1
        or np.any(np.diff(ids) <= 0)
        or (len(ids) and not 0 <= ids[0] <= ids[-1] < target_size)
    ):
        raise InputError(f"mapping: {DENSE} does not hold ascending ids below {target_size}; build the mapping again")
    return ids.astype(np.int64)


def read_dense_table(folder: Path, table: Literal["input", "head"]) -> NDArray[np.float32] | None:
    """One table of the rows given as numbers, float32 [R, h]; None where it is not there.

    Raises:
        InputError: the file is damaged, or a number in it is not finite.
    """
    if not (folder / DENSE).is_file():
        return None
    rows = _read(folder, table)
    if rows is None:
        return None
    if rows.ndim != 2 or not np.isfinite(rows).all():
        raise InputError(f"mapping: the rows {table!r} in {DENSE} are no finite table; build the mapping again")
    ids = _read(folder, "rows")
    count = 0 if ids is None else len(ids)
    if len(rows) not in (1, count):
        raise InputError(f"mapping: {DENSE} has {count} ids and {len(rows)} rows {table!r}; build the mapping again")
    if len(rows) == 1:
        # Unlike broadcast_to, writable in name, which torch asks for.
        row = rows.astype(np.float32)
        return np.lib.stride_tricks.as_strided(row, (count, row.shape[1]), (0, row.itemsize))
    return rows.astype(np.float32, copy=False)


def _read(folder: Path, name: str) -> NDArray[np.generic] | None:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(folder / DENSE, framework="numpy") as file:
            found: NDArray[np.generic] | None = file.get_tensor(name) if name in file.keys() else None  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise InputError(f"mapping: {DENSE} is damaged ({error}); build the mapping again") from error
    return found
