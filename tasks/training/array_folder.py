"""Folders of plain arrays on disk: written piece by piece, published whole, read as memory maps."""

import json
import logging
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.training.durable import empty_folder, publish_folder

FACTS = "counts.json"

log = logging.getLogger(__name__)


class ArrayFolder:
    """One-dimensional arrays, each mapped from the file `<name>.<dtype>`, and the facts that go with them.

    Attributes:
        facts: what the writer said of them (JSON types).
    """

    def __init__(self, folder: Path, dtypes: Mapping[str, str], facts: Mapping[str, Any]) -> None:
        self.facts = dict(facts)
        self._arrays = {name: _map(folder / f"{name}.{dtype}", dtype) for name, dtype in dtypes.items()}

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        """The array `name`, read only."""
        return self._arrays[name]


class ArrayFolderWriter:
    """Appends to the arrays of a new folder; `publish` makes it appear. Use as a context manager.

    Args:
        folder: the folder to make; until it is whole it is called `<folder>.unfinished`.
        dtypes: type of each array, by name.
    """

    def __init__(self, folder: Path, dtypes: Mapping[str, str]) -> None:
        self._folder, self._dtypes = folder, dict(dtypes)
        self._unfinished = empty_folder(folder.with_name(folder.name + ".unfinished"))
        self._sizes = dict.fromkeys(dtypes, 0)
        self._stack = ExitStack()
        self._files = {
            name: self._stack.enter_context((self._unfinished / f"{name}.{dtype}").open("wb"))
            for name, dtype in dtypes.items()
        }

    def append(self, name: str, values: npt.NDArray[Any]) -> None:
        """Add `values` ([n]) to the end of the array `name`."""
        np.ascontiguousarray(values, dtype=self._dtypes[name]).tofile(self._files[name])
        self._sizes[name] += len(values)

    def publish(self, facts: Mapping[str, Any]) -> ArrayFolder:
        """Finish the folder; it appears whole, whatever moment the process is killed at."""
        self._stack.close()
        description = {**facts, "sizes": self._sizes}
        (self._unfinished / FACTS).write_text(json.dumps(description, sort_keys=True), encoding="utf-8")
        publish_folder(self._unfinished, self._folder)
        return ArrayFolder(self._folder, self._dtypes, description)

    def __enter__(self) -> "ArrayFolderWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


def open_arrays(folder: Path, dtypes: Mapping[str, str]) -> ArrayFolder | None:
    """The arrays in `folder`; None where there is no such folder or a file has not the size that was written."""
    try:
        facts: dict[str, Any] = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        wanted = {name: facts["sizes"][name] * np.dtype(dtype).itemsize for name, dtype in dtypes.items()}
        found = {name: (folder / f"{name}.{dtype}").stat().st_size for name, dtype in dtypes.items()}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        log.warning("%s cannot be read (%s): it is made again", folder, error)
        return None
    if found != wanted:
        log.warning("%s has files of %s bytes instead of %s: it is made again", folder, found, wanted)
        return None
    return ArrayFolder(folder, dtypes, facts)


def _map(file: Path, dtype: str) -> npt.NDArray[Any]:
    if file.stat().st_size == 0:
        return np.empty(0, dtype=dtype)  # an empty file cannot be mapped
    return np.memmap(file, dtype=dtype, mode="r")
