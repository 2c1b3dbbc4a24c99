"""Killed and concurrent runs: nothing is lost, nothing is done twice, and the bytes are the same."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.e2e

# Up to the last evaluation: a process of its own for every stage that trains, and one for each other kind but a few.
UNTIL = ("--until", "evaluation.2")


def command(small, store, *more):
    options = [part for text in small for part in ("-o", text)]
    return [
        sys.executable,
        "-m",
        "flows.cli",
        "run",
        "eo",
        "--no-prefect",
        "--store",
        str(store),
        "--json",
        *options,
        *more,
    ]


def digests(output):
    """Node -> content digest."""
    return {row["node"]: row["digest"] for row in json.loads(output)["stages"]}


def kill_tree(process):
    """SIGKILL to the process and all its descendants."""
    import psutil

    tree = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    for member in tree:
        with contextlib.suppress(psutil.NoSuchProcess):
            member.send_signal(signal.SIGKILL)
    psutil.wait_procs(tree)
    process.wait()


def test_killed_runs_end_with_the_same_bytes(finished, small, tmp_path, environment, kills):
    """Stages in processes of their own, killed with the run, write what they write in one process without a kill."""
    moments = random.Random(7)
    run = command(small, tmp_path / "store", *UNTIL)
    killed = 0
    for _ in range(kills):
        process = subprocess.Popen(run, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(timeout=moments.uniform(1.0, 15.0))
        except subprocess.TimeoutExpired:
            kill_tree(process)
            killed += 1
    assert killed > 0
    end = subprocess.run(run, env=environment, capture_output=True, text=True)
    assert end.returncode == 0, end.stderr
    found = digests(end.stdout)
    assert found == {item.node: item.artifact.digest for item in finished[1].outcomes if item.node in found}
    assert {"source.pretraining", "alignment", "initial-model", "training.2", "evaluation.2"} <= found.keys()
    assert not [path for path in (tmp_path / "store" / "staging").rglob("*") if path.is_file()]


def test_two_runs_at_once_do_nothing_twice(small, tmp_path, environment):
    runs = [
        subprocess.Popen(
            command(small, tmp_path / "store", "--until", "tokenizer"),
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    outputs = [run.communicate() for run in runs]
    assert [run.returncode for run in runs] == [0, 0], [error for _, error in outputs]
    rows = [row for output, _ in outputs for row in json.loads(output)["stages"]]
    built = [row["node"] for row in rows if row["status"] != "Cached"]
    assert sorted(built) == sorted({row["node"] for row in rows})


def test_a_terminated_run_leaves_no_process(small, tmp_path, environment):
    import psutil

    process = subprocess.Popen(
        command(small, tmp_path / "store"), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    children = []
    deadline = time.monotonic() + 120
    while not children and time.monotonic() < deadline and process.poll() is None:
        children = psutil.Process(process.pid).children(recursive=True)
    assert children, "no child process was started"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    _, alive = psutil.wait_procs(children, timeout=30)
    assert not alive
