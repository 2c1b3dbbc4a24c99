"""Running a stage: in this process, or in a child process of its own.

A child has its own process group, which is ended whole when anything interrupts the parent, and it dies with the parent
even when that is killed. So a crash or an out-of-memory kill ends the stage and not the worker, the memory of a GPU is
freed, and a cancelled run leaves nothing behind.
"""

import contextlib
import contextvars
import json
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from tasks.contract import InputError, Progress, Stage, StageContext, StageResult, load_stage, no_note, no_progress

INTERRUPTED = 128 + signal.SIGTERM
# A thread of OpenMP (torch) that waits spins this often before it sleeps. The default, 300,000, makes training many
# times slower on cores that others use too; 1,000 costs nothing where they are free.
SPIN_COUNT = "1000"
TAIL_LINES = 20
# What torchrun, `accelerate launch` and cluster managers tell a process of the others it was started with.
LAUNCHER_VARIABLES = (
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE"
)  # fmt: skip
PROJECT = Path(__file__).resolve().parents[1]


class StageFailed(RuntimeError):
    """A stage ended without a result; the message holds the reason and the end of its output."""


def run_stage(stage: Stage, context: StageContext, on_line: Callable[[str], None]) -> StageResult:
    """Run `stage`, isolated where it asks for it.

    Args:
        stage: the stage.
        context: what it is given.
        on_line: called with each line that an isolated stage prints or logs.

    Raises:
        InputError: the person's data or configuration cannot be used.
        StageFailed: an isolated stage failed or was killed.
    """
    if not stage.isolated:
        return stage.run(context)
    return run_in_child(stage.name, context, on_line)


def run_in_child(stage: str, context: StageContext, on_line: Callable[[str], None]) -> StageResult:
    """Run the stage of that name in a child process (see `run_stage`)."""
    tail: deque[str] = deque(maxlen=TAIL_LINES)
    outcome: dict[str, Any] = {}
    child, events = start_child(
        stage, context, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    with events:
        # The reader takes this thread's context variables along: who listens to progress may need them.
        reader = threading.Thread(
            target=contextvars.copy_context().run, args=(_read_events, events, context, outcome), daemon=True
        )
        reader.start()
        try:
            assert child.stdout is not None
            for line in child.stdout:
                tail.append(line.rstrip("\n"))
                on_line(tail[-1])
            code = child.wait()
            reader.join()
        except BaseException:
            stop(child, load_stage(stage).grace_seconds)
            raise
    return _result(stage, code, outcome, tail)


def start_child(
    stage: str, context: StageContext, environment: Mapping[str, str] | None = None, **settings: Any
) -> tuple["subprocess.Popen[str]", IO[str]]:
    """Start a process that runs the stage of that name, and give it its request.

    Args:
        stage: name of the stage.
        context: what it is given; progress is told as events.
        environment: variables of its own.
        settings: further arguments of `subprocess.Popen`.

    Returns:
        The process, and the events that it sends (`tasks.child`), one a line.
    """
    request = json.dumps({**request_of(stage, context), "parent": os.getpid()})
    read_end, write_end = os.pipe()
    events = os.fdopen(read_end, encoding="utf-8")
    try:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "tasks.child", str(write_end)],
            stdin=subprocess.PIPE,
            pass_fds=(write_end,),
            env={**load_stage(stage).environment, **child_environment(), **(environment or {})},
            text=True,
            errors="replace",
            **settings,
        )
    except BaseException:
        events.close()
        raise
    finally:
        os.close(write_end)
    try:
        _feed(child, request)
    except BaseException:
        child.kill()
        events.close()
        raise
    return child, events


def request_of(stage: str, context: StageContext) -> dict[str, Any]:
    """What a process is told that is to run the stage of that name (JSON types); `read_request` is its inverse."""
    return {
        "stage": stage,
        "config": json.loads(context.config.model_dump_json()),
        "inputs": {name: str(path) for name, path in context.inputs.items()},
        "files": {name: str(path) for name, path in context.files.items()},
        "out": str(context.out),
        "work": str(context.work),
    }


def read_request(
    request: Mapping[str, Any], progress: Progress = no_progress, note: Callable[[str], None] = no_note
) -> tuple[Stage, StageContext]:
    """The stage that `request` names, and what it is given."""
    stage = load_stage(request["stage"])
    paths = {name: Path(path) for name, path in request["inputs"].items()}
    files = {name: Path(path) for name, path in request.get("files", {}).items()}
    config = stage.config.model_validate_json(json.dumps(request["config"]))
    return stage, StageContext(config, paths, Path(request["out"]), Path(request["work"]), files, progress, note)


def child_environment() -> dict[str, str]:
    """The environment of a child: this process's, with short spinning unless the person has chosen.

    This project is found first, whatever folder the process runs in (which may have a `tasks` of its own). A launcher
    that this process comes from is forgotten: a stage that wants several processes starts them itself.
    """
    chosen = "OMP_WAIT_POLICY" in os.environ or "GOMP_SPINCOUNT" in os.environ
    spinning = {} if chosen else {"GOMP_SPINCOUNT": SPIN_COUNT}
    paths = (str(PROJECT), os.environ.get("PYTHONPATH", ""))
    own = {name: value for name, value in os.environ.items() if name not in LAUNCHER_VARIABLES}
    return {**own, **spinning, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}


def _feed(child: subprocess.Popen[str], request: str) -> None:
    assert child.stdin is not None
    with contextlib.suppress(BrokenPipeError), child.stdin:
        child.stdin.write(request)


def _read_events(events: IO[str], context: StageContext, outcome: dict[str, Any]) -> None:
    for line in events:
        event = read_event(line)
        if event is None:
            continue
        if "result" in event or "error" in event:
            outcome.update(event)
        elif "listener" not in outcome:
            try:
                tell(event, context)
            except Exception as error:  # raised in the parent's thread; events are read on, or the child would block
                outcome["listener"] = error


def tell(event: Mapping[str, Any], context: StageContext) -> None:
    """Pass on what a child has told: progress or a note."""
    if "note" in event:
        context.note(event["note"])
    else:
        told = event["progress"]
        context.progress(told["done"], told["total"], told["unit"], told["message"])


def read_event(line: str) -> dict[str, Any] | None:
    """An event of a child; None for the last line of one that was killed while writing."""
    try:
        event: dict[str, Any] = json.loads(line)
    except ValueError:
        return None
    return event


def _result(stage: str, code: int, outcome: dict[str, Any], tail: deque[str]) -> StageResult:
    if "listener" in outcome:
        raise outcome["listener"]
    if code == 0 and "result" in outcome:
        return StageResult(**outcome["result"])
    error = outcome.get("error")
    if error is not None and error["kind"] == "input":
        raise InputError(error["message"])
    if error is not None:
        raise StageFailed(f"stage {stage!r} failed: {error['message']}\n{error['trace']}")
    reason = f"exit code {code}"
    if code == INTERRUPTED:
        reason = "ended by SIGTERM; what it had done is kept, run again to go on"
    if code < 0:
        reason = f"killed by {signal.Signals(-code).name}"
        reason += " (out of memory?)" if code == -signal.SIGKILL else ""
    lines = "\n".join(tail)
    raise StageFailed(f"stage {stage!r} ended without a result: {reason}. End of its output:\n{lines}")


def stop(child: "subprocess.Popen[Any]", grace: float) -> None:
    """End a child and its process group: SIGTERM, `grace` seconds to save its state, then SIGKILL."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGTERM)
    try:
        child.wait(grace)
    except subprocess.TimeoutExpired:
        pass
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
