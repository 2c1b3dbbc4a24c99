"""Columns of numbers in memory or in files, read in parts."""

import mmap
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Column(Protocol):
    """Rows of numbers of one type."""

    def read(self, start: int, end: int) -> Array:
        """The rows `start` to `end` (exclusive); a view where the column is in memory, a new array where not."""


class Resident:
    """A column in memory."""

    def __init__(self, array: Array) -> None:
        self.array = array

    def read(self, start: int, end: int) -> Array:
        """See `Column`."""
        return self.array[start:end]


class Spilled:
    """A column in a file."""

    def __init__(self, path: Path, dtype: npt.DTypeLike, width: int = 1) -> None:
        self.path, self._dtype, self._width = path, np.dtype(dtype), width

    def read(self, start: int, end: int) -> Array:
        """See `Column`."""
        rows, width = end - start, self._width
        row_bytes = self._dtype.itemsize * width
        array = np.fromfile(self.path, self._dtype, rows * width, offset=start * row_bytes)
        if len(array) != rows * width:
            raise OSError(f"{self.path} ends before row {end:,}: remove its folder and run again")
        return array.reshape(rows, width) if width > 1 else array


def spill(array: Array, path: Path) -> Spilled:
    """Write `array` into the file `path` at once (complete or not there) and give it back as a column."""
    temporary = path.with_suffix(path.suffix + ".tmp")
    with temporary.open("wb") as file:
        file.write(np.ascontiguousarray(array).data)
    temporary.replace(path)
    return Spilled(path, array.dtype, array.shape[1] if array.ndim == 2 else 1)


def release(*arrays: Array) -> None:
    """Let the system take back the memory of file-mapped arrays (they are read again when needed)."""
    for array in arrays:
        base: Any = array
        while isinstance(base, np.ndarray):
            if isinstance(base, np.memmap) and isinstance(getattr(base, "_mmap", None), mmap.mmap):
                base._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]  # Linux and macOS
                break
            base = base.base
