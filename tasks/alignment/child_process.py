"""Programs run as children of this process that cannot outlive it."""

import contextlib
import ctypes
import os
import selectors
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

LAST_LINES = 20
_READ_BYTES = 65_536
_PR_SET_PDEATHSIG = 1
# Loaded here because little may be done between fork and exec.
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


class ProgramError(RuntimeError):
    """A program ended with an error; the message has its command, its exit and its last lines of standard error."""


@dataclass(frozen=True)
class Program:
    """A program to run.

    Attributes:
        command: program and arguments; no shell is involved.
        output: file for standard output, overwritten.
        on_line: called with every line of standard error, without its end.
        environment: variables set besides those of this process.
    """

    command: Sequence[str]
    output: Path
    on_line: Callable[[str], None]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass
class _Running:
    """A started program and what it has said so far."""

    program: Program
    process: "subprocess.Popen[bytes]"
    last: deque[str] = field(default_factory=lambda: deque(maxlen=LAST_LINES))
    begun: bytes = b""

    def take(self, data: bytes) -> None:
        """Take some bytes of standard error; none at its end."""
        *lines, self.begun = (self.begun + data).split(b"\n") if data else (self.begun, b"")
        for raw in lines:
            line = raw.decode("utf-8", errors="replace").rstrip()
            if line or data:
                self.last.append(line)
                self.program.on_line(line)

    def end(self) -> None:
        """Wait for the end; an error if it is not a good one."""
        code = self.process.wait()
        if code != 0:
            how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
            raise ProgramError(
                f"{' '.join(self.program.command)} ended with {how}; its last lines of standard error:\n"
                + "\n".join(self.last)
            )


def _die_with_parent(parent: int) -> None:
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # the parent died before the call
            os._exit(1)


def run_programs(programs: Sequence[Program]) -> None:
    """Run programs beside each other, each in a process group of its own, until all have ended.

    The groups are killed when this function is left by an exception, and (on Linux) the programs when this process
    dies.

    Raises:
        ProgramError: a program cannot be started, or ends with another code than 0 or by a signal.
    """
    running: list[_Running] = []
    try:
        with selectors.DefaultSelector() as selector:
            for program in programs:
                running.append(_start(program))
                error = running[-1].process.stderr
                assert error is not None
                selector.register(error, selectors.EVENT_READ, running[-1])
            while selector.get_map():
                for key, _ in selector.select():
                    data = os.read(key.fd, _READ_BYTES)
                    key.data.take(data)
                    if not data:
                        selector.unregister(key.fileobj)
                        key.data.end()
    finally:
        for item in running:
            if item.process.poll() is None:
                _kill_group(item.process)
            if item.process.stderr is not None:
                item.process.stderr.close()


def _start(program: Program) -> _Running:
    parent = os.getpid()
    with program.output.open("wb") as stdout:
        try:
            process = subprocess.Popen(
                list(program.command),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=subprocess.PIPE,
                start_new_session=True,
                env={**os.environ, **program.environment},
                preexec_fn=lambda: _die_with_parent(parent),
            )
        except OSError as error:
            raise ProgramError(f"cannot start {' '.join(program.command)}: {error}") from error
    return _Running(program, process)


def _kill_group(process: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
