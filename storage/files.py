"""Small file operations that survive a crash, and whose errors name the path."""

import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Puts `path` into an OSError that names no file (a full disk is reported by write and fsync, which know none)."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        raise OSError(error.errno, error.strerror or "failed", str(path)) from error


def fsync_path(path: Path) -> None:
    """Ask the system to bring the file or folder `path` to the disk."""
    with naming(path):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def make_folders(path: Path) -> None:
    """Make the folder `path` and those above it where they are missing, durably."""
    missing = []
    while not path.is_dir():
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
        fsync_path(folder.parent)


def write_atomic(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write `data` so that readers find either the old content of `path` or all of the new one.

    Args:
        path: the file; missing folders above it are made.
        data: its new content.
        durable: wait until it is on the disk. Without, a power failure may leave an older, an empty or no file.

    Raises:
        OSError: with the path, when the disk is full or the folder may not be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name[:150]}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        with naming(path), temporary.open("xb") as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    if durable:
        fsync_path(path.parent)


def remove_tree(path: Path) -> None:
    """Delete the folder or file `path`; what is gone already is no error.

    Raises:
        OSError: with the path, when something may not be deleted.
    """
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    for _ in range(3):  # another process may be deleting the same folder
        with suppress(FileNotFoundError):
            shutil.rmtree(path)
        if not path.exists():
            return


@dataclass(frozen=True)
class Tree:
    """What is in a folder.

    Attributes:
        files: regular files as (path relative to the folder with '/', stat), sorted by path.
        folders: sub-folders, relative, parents first.
        odd: relative paths of everything else (symbolic links, sockets, names that are not Unicode).
    """

    files: list[tuple[str, os.stat_result]]
    folders: list[str]
    odd: list[str]


def list_tree(folder: Path) -> Tree:
    """Everything below `folder`, without following symbolic links.

    Raises:
        OSError: a folder cannot be read.
    """
    tree = Tree([], [], [])
    pending = [""]
    while pending:
        prefix = pending.pop()
        with os.scandir(folder / prefix) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                relative = f"{prefix}{entry.name}"
                _sort_in(tree, entry, relative, pending)
    tree.files.sort(key=lambda item: item[0])
    tree.folders.sort()
    return tree


def _sort_in(tree: Tree, entry: os.DirEntry[str], relative: str, pending: list[str]) -> None:
    status = entry.stat(follow_symlinks=False)
    unicode_name = not any("\ud800" <= character <= "\udfff" for character in relative)
    if stat.S_ISDIR(status.st_mode) and unicode_name:
        tree.folders.append(relative)
        pending.append(relative + "/")
    elif stat.S_ISREG(status.st_mode) and unicode_name:
        tree.files.append((relative, status))
    else:
        tree.odd.append(relative)


def tree_bytes(path: Path) -> int:
    """Bytes of the regular files in the folder (or of the file) `path`; 0 where it is gone."""
    try:
        if not path.is_dir():
            return path.lstat().st_size
        return sum(status.st_size for _, status in list_tree(path).files)
    except FileNotFoundError:
        return 0
