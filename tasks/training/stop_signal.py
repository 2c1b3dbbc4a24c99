"""SIGTERM as a request to save and stop."""

import logging
import signal
import threading
from types import FrameType, TracebackType
from typing import Any

log = logging.getLogger(__name__)


class Interrupted(SystemExit):
    """Training stopped at SIGTERM after writing a checkpoint; uncaught, the process exits with code 143.

    A `SystemExit`, so that code which retries or reports every `Exception` does not take it for a failure.
    """

    def __init__(self, step: int) -> None:
        super().__init__(143)
        self.step = step

    def __str__(self) -> str:
        return f"stopped by SIGTERM after step {self.step}; a checkpoint is written, run again to go on"


class StopSignal:
    """While active (context manager), SIGTERM only sets `received`. Outside the main thread it does nothing."""

    def __init__(self) -> None:
        self.received = False
        self._previous: Any = None
        self._active = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.received = True

    def __enter__(self) -> "StopSignal":
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGTERM, self._handle)
            self._active = True
        else:
            log.info("not in the main thread: SIGTERM will not write a checkpoint")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._active:
            signal.signal(signal.SIGTERM, self._previous)
            self._active = False
