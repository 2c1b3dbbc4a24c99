"""A process with the libraries of training loaded, which forks one child for each training and kills it when asked to.

A program, not a module: `python forking_server.py`. A new interpreter takes seconds to load those libraries, a fork
milliseconds. Each line of standard input is a request as JSON: stage, config, inputs, out, work, and `stop`, which is
null or the signal `number` to be sent `seconds` after the first report of `step` steps or more (-1: after the start).
Each line of standard output is an answer: `code`, the exit code (below 0: ended by that signal), `first` and `step`,
the first and the last step reported, and `step_seconds`, the mean time of those between.
"""

import importlib
import json
import math
import os
import select
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from tasks.child import die_with_parent
from tasks.contract import StageContext, load_stage

# What a training imports, some of it while it runs.
LIBRARIES = ("peft", "torch._dynamo", "transformers.models.llama.modeling_llama", "tasks.training.job")


def train(request: dict[str, Any], reports: int) -> None:
    """Run the stage; the steps done are written to the file descriptor `reports`, a line each."""

    def progress(done: float, total: float | None, unit: str, message: str = "") -> None:
        if unit == "steps":
            os.write(reports, f"{done}\n".encode())

    stage = load_stage(request["stage"])
    config = stage.config.model_validate_json(request["config"])
    inputs = {name: Path(path) for name, path in request["inputs"].items()}
    stage.run(StageContext(config, inputs, Path(request["out"]), Path(request["work"]), progress=progress))


def start(request: dict[str, Any]) -> tuple[int, int]:
    """Fork a child that runs the request; its pid, and the file descriptor of its reports."""
    server = os.getpid()
    read_end, write_end = os.pipe()
    child = os.fork()
    if child:
        os.close(write_end)
        return child, read_end
    code = 1
    try:
        os.close(read_end)
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        die_with_parent(server)
        train(request, write_end)
        code = 0
    except SystemExit as error:
        code = int(error.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


class Reports:
    """The steps that a child reports, and when each came; step 0 is the beginning, of a resumed training too."""

    def __init__(self, source: int) -> None:
        self._source = source
        self._unread = b""
        self.times: dict[int, float] = {}

    @property
    def last(self) -> int:
        """The last step; -1 before any."""
        return max(self.times, default=-1)

    def wait(self, step: float = math.inf, seconds: float = math.inf) -> None:
        """Read until `step` is reported, `seconds` have passed, or the child has ended."""
        end = time.monotonic() + seconds
        while self.last < step and (left := end - time.monotonic()) > 0:
            if not select.select([self._source], [], [], None if math.isinf(left) else left)[0]:
                return
            data = os.read(self._source, 4096)
            if not data:
                return
            *lines, self._unread = (self._unread + data).split(b"\n")
            self.times |= dict.fromkeys(map(int, lines), time.monotonic())

    def figures(self) -> dict[str, float]:
        """What an answer says of them."""
        last = self.last
        first = min((step for step in self.times if step), default=last)
        seconds = (self.times[last] - self.times[first]) / (last - first) if last > first else 0.0
        return {"first": first, "step": last, "step_seconds": seconds}


def answer(request: dict[str, Any]) -> dict[str, float]:
    """Run the request in a child, to its end or to the signal."""
    child, source = start(request)
    reports = Reports(source)
    if (stop := request["stop"]) is not None:
        reports.wait(step=stop["step"])
        reports.wait(seconds=stop["seconds"])
        os.kill(child, stop["number"])
    reports.wait()
    os.close(source)
    _, status = os.waitpid(child, 0)
    return {"code": os.waitstatus_to_exitcode(status), **reports.figures()}


def main() -> None:
    """Answer requests until there are no more."""
    for name in LIBRARIES:
        importlib.import_module(name)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
