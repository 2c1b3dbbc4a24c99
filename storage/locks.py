"""Locks on a file that die with the process that holds them.

The lock is `flock` on an open file: the kernel drops it when the process ends, however it ends, so there are no stale
locks. Its content (process id and host) is only for messages. Between threads of one process it excludes as well.
On network file systems it holds as far as their `flock` does (NFS: since Linux 2.6.12, with its lock service running).
"""

import fcntl
import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from storage.files import naming

POLL_SECONDS = 0.2


@dataclass(frozen=True)
class LockHolder:
    """Who holds a lock, for messages only.

    Attributes:
        pid: process id on its host.
        host: name of the machine.
    """

    pid: int
    host: str


OnWait = Callable[[float, LockHolder | None], None]

_held: set[int] = set()


def _close_in_child() -> None:
    # A forked child shares the open file and would keep the lock alive after its parent's death.
    for descriptor in _held:
        with suppress(OSError):
            os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_close_in_child)


@contextmanager
def hold(path: Path, on_wait: OnWait | None = None, poll_seconds: float = POLL_SECONDS) -> Iterator[None]:
    """Hold the lock on the file `path` (made if missing) in the body; wait for it as long as it takes.

    The wait is a poll, so that signals and KeyboardInterrupt get through.

    Args:
        path: the lock's file.
        on_wait: called before each poll with the seconds waited so far and the holder, if its name can be read.
        poll_seconds: time between two attempts.

    Raises:
        OSError: the file cannot be made or locked.
    """
    started = time.monotonic()
    while (descriptor := _acquire(path)) is None:
        if on_wait is not None:
            on_wait(time.monotonic() - started, read_holder(path))
        time.sleep(poll_seconds)
    try:
        yield
    finally:
        _release(descriptor)


@contextmanager
def try_hold(path: Path) -> Iterator[bool]:
    """Hold the lock in the body if it is free; the value says whether it was."""
    descriptor = _acquire(path)
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            _release(descriptor)


def read_holder(path: Path) -> LockHolder | None:
    """Who wrote into the lock's file last, or None where nothing can be read."""
    try:
        values = json.loads(path.read_bytes())
        return LockHolder(int(values["pid"]), str(values["host"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _acquire(path: Path) -> int | None:
    """An open, locked descriptor of the file that is at `path` now; None if another one holds the lock."""
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        with naming(path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        _held.add(descriptor)
        try:
            with naming(path):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _close(descriptor)
            return None
        except BaseException:
            _close(descriptor)
            raise
        if _is_at(descriptor, path):
            with suppress(OSError):  # the note is no part of the lock: a full disk must not matter
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "host": platform.node()}).encode(), 0)
            return descriptor
        _close(descriptor)  # somebody removed the file between open and flock: what we locked is nobody's lock


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _release(descriptor: int) -> None:
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
    _close(descriptor)


def _close(descriptor: int) -> None:
    _held.discard(descriptor)
    os.close(descriptor)
