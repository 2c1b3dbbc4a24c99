"""A program run as a child of this process that cannot outlive it."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

LAST_LINES = 20
_PR_SET_PDEATHSIG = 1
# Loaded here because little may be done between fork and exec.
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


class ProgramError(RuntimeError):
    """A program ended with an error; the message has its command, its exit and its last lines of standard error."""


def _die_with_parent(parent: int) -> None:
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # the parent died before the call
            os._exit(1)


def run_program(command: Sequence[str], output: Path, on_line: Callable[[str], None]) -> None:
    """Run `command` in a process group of its own, with standard output into the file `output`.

    The group is killed when this function is left by an exception, and (on Linux) the program when this process dies.

    Args:
        command: program and arguments; no shell is involved.
        output: file for standard output, overwritten.
        on_line: called with every line of standard error, without its end.

    Raises:
        ProgramError: the program cannot be started, or ends with another code than 0 or by a signal.
    """
    last: deque[str] = deque(maxlen=LAST_LINES)
    parent = os.getpid()
    with output.open("wb") as stdout:
        try:
            process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=subprocess.PIPE,
                start_new_session=True,
                preexec_fn=lambda: _die_with_parent(parent),
            )
        except OSError as error:
            raise ProgramError(f"cannot start {' '.join(command)}: {error}") from error
        assert process.stderr is not None
        try:
            with process.stderr:
                for raw in process.stderr:
                    line = raw.decode("utf-8", errors="replace").rstrip()
                    last.append(line)
                    on_line(line)
            code = process.wait()
        finally:
            if process.poll() is None:
                _kill_group(process)
    if code != 0:
        end = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        raise ProgramError(
            f"{' '.join(command)} ended with {end}; its last lines of standard error:\n" + "\n".join(last)
        )


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
