"""Starting the processes of a training on this machine, and ending all of them when one fails.

torchrun would start each in a session of its own, where neither a signal to the stage's process group nor the death of
the process that started them reaches them. Here they stay in the group, and die with the process that started them.
"""

import contextlib
import logging
import os
import queue
import signal
import socket
import subprocess
import threading
import time
from dataclasses import dataclass, field
from typing import IO, Any

from configs.schema import OptimizationConfig
from tasks.contract import InputError, StageContext, StageResult
from tasks.isolation import INTERRUPTED, read_event, start_child, tell
from tasks.training.stop_signal import StopSignal

POLL_SECONDS = 0.2
# After one process has failed the others have so long to say what happened to them, or to save their state.
SETTLE_SECONDS = 5.0

log = logging.getLogger(__name__)


class ProcessFailed(RuntimeError):
    """One of several processes ended without a result."""


def processes_to_start(config: OptimizationConfig) -> int:
    """How many processes the training is to be started in; 1 where a launcher has started them already.

    Raises:
        InputError: there are fewer GPUs.
    """
    wanted = config.processes.count
    if wanted == 1 or int(os.environ.get("WORLD_SIZE", "1")) > 1:
        return 1
    if config.device == "cpu":
        return 1 if wanted == "gpus" else wanted
    import torch

    gpus = torch.cuda.device_count()
    if wanted == "gpus":
        return max(1, gpus)
    if gpus and wanted > gpus:
        raise InputError(f"processes.count is {wanted}, but this machine has {gpus} GPUs: set it to 'gpus'")
    return wanted


def run_processes(stage: str, context: StageContext, count: int) -> StageResult:
    """Run the stage of that name in `count` processes, and give the result of the first.

    Their output goes where this process's goes. SIGTERM is passed on to them.

    Raises:
        InputError: a process refused its data or configuration, ran out of memory, or the training diverged.
        ProcessFailed: a process failed or was killed.
        SystemExit: SIGTERM came, and the processes have saved their state.
    """
    told: queue.Queue[tuple[int, dict[str, Any] | None]] = queue.Queue()
    processes = []
    port = _free_port()
    try:
        for rank in range(count):
            child, events = start_child(stage, context, _environment(rank, count, port))
            processes.append(child)
            threading.Thread(target=_read, args=(rank, events, told), daemon=True).start()
        with StopSignal() as stop:
            course = _follow(processes, told, context, stop)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return _result(course, count)


@dataclass
class _Course:
    """What became of the processes: exit codes and errors in the order in which they were seen, and the result."""

    codes: dict[int, int] = field(default_factory=dict)
    errors: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    result: dict[str, Any] | None = None


def _follow(
    processes: "list[subprocess.Popen[str]]",
    told: "queue.Queue[tuple[int, dict[str, Any] | None]]",
    context: StageContext,
    stop: StopSignal,
) -> _Course:
    """Listen to the processes until all have ended, or one has failed and the others had time to end."""
    course, deadline, passed_on = _Course(), float("inf"), False
    while len(course.codes) < len(processes) and time.monotonic() < deadline:
        if stop.received and not passed_on:
            passed_on = True
            for process in processes:
                process.send_signal(signal.SIGTERM)
        with contextlib.suppress(queue.Empty):
            rank, event = told.get(timeout=POLL_SECONDS)
            if event is None:
                course.codes[rank] = processes[rank].wait()
                if course.codes[rank] != 0:
                    deadline = min(deadline, time.monotonic() + SETTLE_SECONDS)
            elif "error" in event:
                course.errors.append((rank, event["error"]))
            elif "result" not in event:
                tell(event, context)
            elif rank == 0:
                course.result = event["result"]
    return course


def _result(course: _Course, count: int) -> StageResult:
    """The first process's result, or the error that explains best: others are only that a process has gone."""
    refused = [error for _, error in course.errors if error["kind"] == "input"]
    if refused:
        raise InputError(refused[0]["message"])
    killed = [(rank, -code) for rank, code in course.codes.items() if code < 0]
    if killed:
        rank, number = killed[0]
        guess = " (out of memory?)" if number == signal.SIGKILL else ""
        raise ProcessFailed(
            f"process {rank} of {count} was killed by {signal.Signals(number).name}{guess}; the last checkpoint is kept"
        )
    if course.errors:
        rank, error = course.errors[0]
        raise ProcessFailed(f"process {rank} of {count} failed: {error['message']}\n{error['trace']}")
    failed = {rank: code for rank, code in course.codes.items() if code != 0}
    if INTERRUPTED in failed.values():
        raise SystemExit(INTERRUPTED)
    if failed or course.result is None:
        rank, code = next(iter(failed.items()), (0, 0))
        raise ProcessFailed(f"process {rank} of {count} ended without a result: exit code {code}")
    return StageResult(**course.result)


def _environment(rank: int, count: int, port: int) -> dict[str, str]:
    """What torchrun would tell a process."""
    numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "MASTER_PORT": port}
    return {"MASTER_ADDR": "127.0.0.1", **{name: str(number) for name, number in numbers.items()}}


def _read(rank: int, events: IO[str], told: "queue.Queue[tuple[int, dict[str, Any] | None]]") -> None:
    with events:
        for line in events:
            event = read_event(line)
            if event is not None:
                told.put((rank, event))
    told.put((rank, None))


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
