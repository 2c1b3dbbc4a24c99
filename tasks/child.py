"""The child process of an isolated stage: `python -m tasks.child EVENTS_FD`, the request as JSON on standard input.

Events go to the file descriptor EVENTS_FD as JSON lines: {"progress": …} and {"note": …}, then {"result": …} or
{"error": …}. Whatever the stage prints or logs goes to standard output and error, which the parent takes as log lines.
The process ends with its parent (PR_SET_PDEATHSIG), so that nothing is left running after a crash.
"""

import ctypes
import dataclasses
import json
import logging
import os
import resource
import signal
import sys
import time
import traceback
from typing import IO, Any

from tasks.contract import InputError
from tasks.isolation import read_request

PR_SET_PDEATHSIG = 1
PROGRESS_SECONDS = 0.25


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when `parent` (its pid) ends; leave at once if it has ended already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(137)


class EventSender:
    """Writes events; progress is passed on at most every `PROGRESS_SECONDS`, and always when it is complete."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._last = float("-inf")

    def send(self, event: dict[str, Any]) -> None:
        """Write one event."""
        self._stream.write(json.dumps(event) + "\n")
        self._stream.flush()

    def progress(self, done: float, total: float | None, unit: str, message: str = "") -> None:
        """A `tasks.contract.Progress`."""
        now = time.monotonic()
        if now - self._last >= PROGRESS_SECONDS or (total is not None and done >= total):
            self._last = now
            self.send({"progress": {"done": done, "total": total, "unit": unit, "message": message}})

    def note(self, text: str) -> None:
        """Write what a person should be told."""
        self.send({"note": text})


def _terminate(signum: int, frame: object) -> None:
    raise SystemExit(128 + signum)


def peak_memory_bytes() -> int:
    """Largest resident memory of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def main() -> int:
    """Run the requested stage; 0 when its result was sent, 1 when it failed."""
    request = json.load(sys.stdin)
    die_with_parent(request["parent"])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    signal.signal(signal.SIGTERM, _terminate)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    with os.fdopen(int(sys.argv[1]), "w", encoding="utf-8") as stream:
        events = EventSender(stream)
        try:
            stage, context = read_request(request, events.progress, events.note)
            result = dataclasses.asdict(stage.run(context))
            result["summary"].setdefault("peak_memory_bytes", peak_memory_bytes())
            events.send({"result": result})
        except Exception as error:
            kind = "input" if isinstance(error, InputError) else "other"
            events.send({"error": {"kind": kind, "message": str(error), "trace": traceback.format_exc()}})
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
