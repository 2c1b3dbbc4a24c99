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

KILLS = int(os.environ.get("LANGADAPT_TEST_KILLS", "3"))


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
    """Node -> content digest; the report is exempt, it shows times."""
    return {row["node"]: row["digest"] for row in json.loads(output)["stages"] if row["stage"] != "report"}


def kill_tree(process):
    """SIGKILL to the process and all its descendants."""
    import psutil

    tree = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    for member in tree:
        with contextlib.suppress(psutil.NoSuchProcess):
            member.send_signal(signal.SIGKILL)
    psutil.wait_procs(tree)
    process.wait()


def test_killed_runs_end_with_the_same_bytes(finished, small, tmp_path, environment):
    _, result = finished
    expected = {item.node: item.artifact.digest for item in result.outcomes if item.stage != "report"}
    moments = random.Random(7)
    killed = 0
    for _ in range(KILLS):
        process = subprocess.Popen(
            command(small, tmp_path / "store"), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            process.wait(timeout=moments.uniform(1.0, max(4.0, result.seconds / 2)))
        except subprocess.TimeoutExpired:
            kill_tree(process)
            killed += 1
    assert killed > 0
    end = subprocess.run(command(small, tmp_path / "store"), env=environment, capture_output=True, text=True)
    assert end.returncode == 0, end.stderr
    assert digests(end.stdout) == expected
    assert not [path for path in (tmp_path / "store" / "staging").rglob("*") if path.is_file()]


def test_two_runs_at_once_do_nothing_twice(small, tmp_path, environment):
    runs = [
        subprocess.Popen(
            command(small, tmp_path / "store", "--until", "mapping"),
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
