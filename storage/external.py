"""Content digests of files and folders from outside the store, remembered so that each is hashed once.

The memory is a folder with one small JSON file for each outside file. A digest is believed while the file's size,
modification time, change time and inode are the ones it was hashed with. Any process may write at any time; an entry
that is damaged is as good as none.
"""

import hashlib
import json
import logging
import os
import time
from collections.abc import Iterable
from pathlib import Path

from storage.files import write_atomic
from storage.keys import content_digest, file_digest, folder_files

# A file written in the same tick of the file system's clock as it was hashed could be changed without a trace in its
# times. A file that young is hashed and not remembered.
CLOCK_TICK_NS = 20_000_000

_log = logging.getLogger(__name__)


def digest_file_cached(path: Path, index: Path) -> str:
    """Sha256 of the file `path`, in hexadecimal, hashed only if it has changed since the last time.

    Args:
        path: the file; symbolic links are followed.
        index: folder of the memory; made if need be.

    Raises:
        OSError: the file is missing or cannot be read; names it.
        RuntimeError: the file was changed while it was read.
    """
    real = path.resolve(strict=True)
    if real.is_dir():
        raise IsADirectoryError(21, "a file is needed, this is a folder", str(path))
    state = _state(real)
    entry = index / f"{hashlib.sha256(os.fsencode(real)).hexdigest()}.json"
    remembered = _read(entry, real, state)
    if remembered is not None:
        return remembered
    started = time.time_ns()
    digest = file_digest(real)
    if _state(real) != state:
        raise RuntimeError(f"{path} was changed while it was read; run again when it is complete")
    if started - max(state[1], state[2]) > CLOCK_TICK_NS:
        _remember(entry, real, state, digest)
    return digest


def digest_folder_cached(path: Path, index: Path, names: Iterable[str] | None = None) -> str:
    """Content digest of the folder `path` (the same as `storage.keys.folder_digest`), hashing only changed files.

    Args:
        path: the folder.
        index: folder of the memory; made if need be.
        names: relative paths of the files that matter; None takes all that are not hidden.

    Raises:
        OSError: something is missing or cannot be read.
        ValueError: there is no file at all.
        RuntimeError: a file was changed while it was read.
    """
    return content_digest((name, digest_file_cached(file, index)) for name, file in folder_files(path, names))


def _state(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def _read(entry: Path, real: Path, state: list[int]) -> str | None:
    try:
        values = json.loads(entry.read_bytes())
        if values["path"] == str(real) and values["state"] == state and len(values["sha256"]) == 64:
            return str(values["sha256"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return None


def _remember(entry: Path, real: Path, state: list[int], digest: str) -> None:
    values = {"path": str(real), "state": state, "sha256": digest}
    try:
        write_atomic(entry, json.dumps(values).encode("utf-8"), durable=False)
    except OSError as error:  # only time is lost
        _log.debug("cannot remember the digest of %s: %s", real, error)
