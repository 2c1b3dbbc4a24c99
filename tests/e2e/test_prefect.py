"""The flow on a real Prefect server: states, and a deployment run by a worker."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

pytestmark = [pytest.mark.prefect, pytest.mark.e2e]

PROJECT = Path(__file__).resolve().parents[2]
START_SECONDS = 180


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A Prefect server of its own on a free port; gives the environment that reaches it."""
    home = tmp_path_factory.mktemp("prefect")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    from flows.settings import PREFECT_DEFAULTS

    own = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "LANGADAPT_"))}
    path = f"{Path(sys.executable).parent}{os.pathsep}{own.get('PATH', '')}"
    url = f"http://127.0.0.1:{port}/api"
    environment = {**own, **PREFECT_DEFAULTS, "PATH": path, "PREFECT_HOME": str(home), "PREFECT_API_URL": url}
    environment["PREFECT_WORKER_QUERY_SECONDS"] = "1"
    log = (home / "server.log").open("w")
    process = subprocess.Popen(
        [sys.executable, "-m", "prefect", "server", "start", "--port", str(port)],
        env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    try:
        _wait_for(process, f"{url}/health", home / "server.log")
        yield environment
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        log.close()


def _wait_for(process, url, log):
    import time

    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()[-3000:]
        try:
            urllib.request.urlopen(url, timeout=1).read()
        except OSError:
            continue
        return
    raise AssertionError(f"no answer from {url}: {log.read_text()[-3000:]}")


def _post(environment, path, body):
    request = urllib.request.Request(
        f"{environment['PREFECT_API_URL']}{path}",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    return json.loads(urllib.request.urlopen(request, timeout=30).read())


def _task_states(environment, flow_run_name):
    runs = _post(environment, "/flow_runs/filter", {"sort": "START_TIME_DESC", "limit": 1})
    assert runs[0]["name"] == flow_run_name
    tasks = _post(environment, "/task_runs/filter", {"flow_runs": {"id": {"any_": [runs[0]["id"]]}}})
    return runs[0]["id"], {task["name"]: task["state"]["name"] for task in tasks}


def test_a_stage_in_the_store_is_cached_in_prefect(server, small, tmp_path):
    options = [part for text in small for part in ("-o", text)]
    arguments = [
        sys.executable,
        "-m",
        "flows.cli",
        "run",
        "eo",
        "--until",
        "tokenizer",
        "--prefect",
        "--json",
        *options,
    ]
    environment = {**server, "LANGADAPT_STORE": str(tmp_path / "store")}
    for expected in ("Completed", "Cached"):
        done = subprocess.run(arguments, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert {row["status"] for row in json.loads(done.stdout)["stages"]} == {expected}
        _, states = _task_states(server, "eo tiny-english trans-tokenization")
        assert set(states) == {"sample en-eo", "corpus en", "tokenizer en", "corpus eo", "tokenizer eo"}
        assert set(states.values()) == {expected}


def test_a_comparison_is_a_flow_whose_shared_stages_are_tasks_once(server, small, copied):
    copied.run(recipe="mean", until="mapping")
    options = [part for text in small for part in ("-o", text)]
    arguments = [sys.executable, "-m", "flows.cli", "compare", "eo", "-i", "mean,trans-tokenization,sava"]
    arguments += ["--prefect", "--json"]
    environment = {**server, "LANGADAPT_STORE": str(copied.store)}
    done = subprocess.run([*arguments, *options], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = {row["initialiser"]: row["skipped"] for row in json.loads(done.stdout)["results"]}
    assert rows["mean"] is None
    assert "helper" in rows["sava"]
    _, states = _task_states(server, "compare eo tiny-english")
    done = {name for name, state in states.items() if state == "Completed"}
    assert done == {"initial model eo mean", "evaluate eo initial mean", "compare eo"}
    cached = {name for name, state in states.items() if state == "Cached"}
    shared = {"corpus eo", "tokenizer eo", "align en-eo", "mapping en-eo mean", "mapping en-eo trans-tokenization"}
    assert shared <= cached
    assert done | cached == set(states)


def test_a_fault_of_the_input_fails_the_flow_without_a_retry(server, tmp_path):
    arguments = [sys.executable, "-m", "flows.cli", "run", "sw", "--until", "corpus", "--prefect"]
    environment = {**server, "LANGADAPT_STORE": str(tmp_path / "store"), "LANGADAPT_DATA_ROOT": str(tmp_path)}
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert "there is no file" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def worker(server, tmp_path):
    """A process worker on the pool `local`, which it makes, with a store of its own."""
    environment = {**server, "LANGADAPT_STORE": str(tmp_path / "store")}
    log = (tmp_path / "worker.log").open("w")
    process = subprocess.Popen(
        [sys.executable, "-m", "prefect", "worker", "start", "--pool", "local", "--type", "process"],
        env=environment, cwd=PROJECT, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    yield environment
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    log.close()


def test_a_deployment_runs_in_a_worker(worker, small):
    environment = worker
    _wait_for_pool(environment)
    deploy = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all"]
    done = subprocess.run(deploy, env=environment, cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    run = [
        sys.executable, "-m", "prefect", "deployment", "run", "adapt-language/adapt-language", "-p", "language=eo",
        "-p", f"overrides={json.dumps(small)}", "-p", "until=corpus", "--watch",
    ]  # fmt: skip
    done = subprocess.run(run, env=environment, cwd=PROJECT, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    _, states = _task_states(environment, "eo tiny-english trans-tokenization")
    assert states == {"sample en-eo": "Completed", "corpus en": "Completed", "corpus eo": "Completed"}
    refused = subprocess.run(
        [*run[:5], "-p", "language=xx"], env=environment, cwd=PROJECT, capture_output=True, text=True
    )
    assert refused.returncode != 0
    schema = _post(environment, "/deployments/filter", {})[0]["parameter_openapi_schema"]
    assert "sw" in json.dumps(schema["properties"]["language"])


def _wait_for_pool(environment):
    import time

    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if any(pool["name"] == "local" for pool in _post(environment, "/work_pools/filter", {})):
            return
    raise AssertionError("the worker made no pool")
