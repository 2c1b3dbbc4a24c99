"""Folders that appear whole or not at all, whatever moment the process is killed at."""

import os
import shutil
from pathlib import Path


def publish_folder(unfinished: Path, final: Path) -> None:
    """Flush the files of `unfinished` to the disk and rename it to `final`, replacing a folder of that name.

    The files must be directly in the folder. After a kill or a power cut there is either the whole folder or none.
    """
    for file in unfinished.iterdir():
        _flush(file)
    _flush(unfinished)
    if final.exists():
        shutil.rmtree(final)
    unfinished.rename(final)
    _flush(final.parent)


def empty_folder(path: Path) -> Path:
    """`path` as an empty folder; what was there is removed."""
    if path.exists():
        shutil.rmtree(path)
    path.mkdir(parents=True)
    return path


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
