"""The stage starts its processes itself; all end together, whatever happens to one."""

import json
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from configs.schema import PretrainConfig, ProcessesConfig
from tasks.contract import InputError, StageContext, load_stage
from tasks.isolation import StageFailed, child_environment, run_in_child
from tasks.training import launch, run
from tasks.training.launch import ProcessFailed, _Course, _result, processes_to_start

PROJECT = Path(__file__).resolve().parents[3]
TWO = ProcessesConfig(count=2)


@pytest.fixture
def given(tmp_path, model_folder, corpus_folder):
    def make(config, progress=lambda *figures: None):
        for name in ("out", "work"):
            (tmp_path / name).mkdir(exist_ok=True)
        inputs = {"model": model_folder, "corpus": corpus_folder}
        return StageContext(config, inputs, tmp_path / "out", tmp_path / "work", progress=progress)

    return make


def ranks_below(process):
    """The processes that train, below a process that started them."""
    return [child for child in process.children(recursive=True) if "tasks.child" in child.cmdline()]


def test_how_many_processes(make_phase, monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert processes_to_start(make_phase()) == 1
    assert processes_to_start(make_phase(processes=TWO)) == 2
    assert processes_to_start(make_phase(processes=ProcessesConfig(count="gpus"))) == 1, "on a CPU"
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert processes_to_start(make_phase(processes=TWO)) == 1, "a launcher has started them"


def test_a_launcher_of_the_flow_is_not_the_stages(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "8")
    monkeypatch.setenv("RANK", "3")
    assert not {"WORLD_SIZE", "RANK"} & child_environment().keys()


def test_both_stages_start_their_processes(given, make_phase, monkeypatch):
    shared = {"sequence_length": 16, "batch_size": 6, "device": "cpu", "processes": TWO}
    pretraining = PretrainConfig(steps=1, **shared)
    monkeypatch.setattr(launch, "run_processes", lambda *what: what)
    for name, config in (("training", make_phase(processes=TWO)), ("pretraining", pretraining)):
        context = given(config)
        assert load_stage(name).run(context) == (name, context, 2)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"processes": {"count": 7}}, "processes.count is 7, but a step has 6 sequences"),
        ({"processes": {"count": 0}}, "count is 0: give 1 or more"),
        ({"processes": {"sharding": "full"}, "micro_batch_size": "auto"}, "sizes cannot be tried"),
    ],
)
def test_refused_when_it_is_planned(make_phase, values, message):
    with pytest.raises(ValueError, match=message):
        make_phase(**values)


ERROR = {"kind": "other", "message": "connection closed", "trace": "Traceback"}
REFUSED = {"kind": "input", "message": "does not fit into memory", "trace": ""}


@pytest.mark.parametrize(
    ("course", "kind", "message"),
    [
        (_Course({1: 1, 0: 1}, [(1, ERROR), (0, REFUSED)]), InputError, "does not fit into memory"),
        (_Course({0: 1, 1: -9}, [(0, ERROR)]), ProcessFailed, r"process 1 of 2 was killed by SIGKILL \(out of memory"),
        (_Course({0: 1, 1: 1}, [(1, ERROR), (0, ERROR)]), ProcessFailed, "process 1 of 2 failed: connection closed"),
        (_Course({1: 3}), ProcessFailed, "process 1 of 2 ended without a result: exit code 3"),
        (_Course({0: 143, 1: 143}), SystemExit, "143"),
    ],
)
def test_the_error_that_explains_best(course, kind, message):
    with pytest.raises(kind, match=message):
        _result(course, 2)


def test_a_killed_process_ends_all(given, make_phase):
    """What the first of them has said before has come here."""
    config, seen, notes = make_phase(processes=TWO, steps=5000, log_every=1), [], []

    def kill(done, total, unit, message=""):
        if unit == "steps" and done and not seen:
            seen.extend(ranks_below(psutil.Process()))
            max(seen, key=lambda process: process.pid).send_signal(signal.SIGKILL)

    with pytest.raises(StageFailed, match=r"process 1 of 2 was killed by SIGKILL \(out of memory\?\); the last checkp"):
        run_in_child("training", replace(given(config, kill), note=notes.append), lambda line: None)
    assert len(notes) == 2
    assert "parameters trained, 5,000 steps" in notes[0]
    assert "for 5,000 steps" in notes[1]
    assert len(seen) == 3, "the stage's own process and two that train"
    assert not psutil.wait_procs(seen, timeout=10)[1]


def start_flow(tmp_path, model, corpus, config):
    """A process that runs the stage in a child, as a flow does; once they train: the processes below it; its output."""
    code = (
        "import sys; from pathlib import Path; from configs.schema import PhaseConfig\n"
        "from tasks.contract import StageContext; from tasks.isolation import run_in_child\n"
        "place, model, corpus = map(Path, sys.argv[1:4])\n"
        "config = PhaseConfig.model_validate_json(sys.argv[4])\n"
        "def tell(done, total, unit, message=''): print(unit, done, flush=True)\n"
        "context = StageContext(config, {'model': model, 'corpus': corpus}, place / 'out', place / 'work', {}, tell)\n"
        "run_in_child('training', context, lambda line: print(line, flush=True))\n"
    )
    for name in ("out", "work"):
        (tmp_path / name).mkdir(exist_ok=True)
    command = [sys.executable, "-c", code, str(tmp_path), str(model), str(corpus), config.model_dump_json()]
    flow = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    begin = []
    for line in flow.stdout:
        begin.append(line)
        if re.match("steps [1-9]", line):
            break
    return flow, ranks_below(psutil.Process(flow.pid)), "".join(begin)


def test_sigterm_to_one_process_stops_all_and_nothing_is_left_when_the_flow_is_killed(
    tmp_path, model_folder, corpus_folder, make_phase
):
    config = make_phase(processes=ProcessesConfig(count=2, sharding="full"), steps=5000, log_every=1)
    flow, below, _ = start_flow(tmp_path, model_folder, corpus_folder, config)
    max(below, key=lambda process: process.pid).send_signal(signal.SIGTERM)
    output = flow.stdout.read()
    assert flow.wait(timeout=60) != 0
    assert "ended by SIGTERM; what it had done is kept, run again to go on" in output
    assert not psutil.wait_procs(below, timeout=10)[1]
    newest = max((tmp_path / "work" / "checkpoints").glob("step-*"))
    assert sorted(file.name for file in newest.iterdir()) == [
        "state-00000-of-00002.safetensors",
        "state-00001-of-00002.safetensors",
        "state.json",
    ]
    step = int(newest.name.removeprefix("step-"))
    assert f"SIGTERM: the state after step {step} is saved" in output

    flow, below, begin = start_flow(tmp_path, model_folder, corpus_folder, config)
    assert f"resumed after step {step} of 5000" in begin
    assert len(below) == 3
    flow.kill()
    flow.wait()
    flow.stdout.close()
    assert not psutil.wait_procs(below, timeout=10)[1]


def request(tmp_path, make_phase, **changes):
    file = tmp_path / "request.json"
    values = {"stage": "training", "config": make_phase(steps=2).model_dump(mode="json"), "inputs": {}}
    places = {"out": str(tmp_path / "trained"), "work": str(tmp_path / "work")}
    file.write_text(json.dumps({**values, **places, **changes}))
    return str(file)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"config": {"learnin_rate": 1}}, "unknown key 'learnin_rate'; did you mean 'learning_rate'?"),
        ({"stage": "trainin"}, "trainin"),
        ({"inputs": []}, "no request that can be used"),
    ],
)
def test_a_request_that_cannot_be_used_is_said_in_a_line(tmp_path, make_phase, caplog, changes, message):
    assert run.main(request(tmp_path, make_phase, **changes)) == 2
    assert message in caplog.text
    assert "Traceback" not in caplog.text
    assert not (tmp_path / "trained").exists()


def test_a_request_file_that_is_not_there(tmp_path, caplog):
    assert run.main(str(tmp_path / "none.json")) == 2
    assert "no request that can be used" in caplog.text


def test_a_folder_with_something_in_it_is_left_alone(tmp_path, make_phase, caplog):
    (tmp_path / "trained").mkdir()
    (tmp_path / "trained" / "notes.txt").write_text("mine")
    assert run.main(request(tmp_path, make_phase)) == 2
    assert "is not empty" in caplog.text
    assert [file.name for file in (tmp_path / "trained").iterdir()] == ["notes.txt"]


def test_the_model_appears_whole(tmp_path, model_folder, corpus_folder, make_phase):
    inputs = {"model": str(model_folder), "corpus": str(corpus_folder)}
    assert run.main(request(tmp_path, make_phase, inputs=inputs)) == 0
    assert (tmp_path / "trained" / "model.safetensors").is_file()
    assert json.loads((tmp_path / "work" / "result.json").read_text())["summary"]["steps"] == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["request.json", "trained", "work"]


def test_the_same_request_again_finds_its_model(tmp_path, model_folder, corpus_folder, make_phase, caplog):
    """A cluster may start a job again; another request does not take the model for its own."""
    caplog.set_level("INFO")
    inputs = {"model": str(model_folder), "corpus": str(corpus_folder)}
    assert run.main(request(tmp_path, make_phase, inputs=inputs)) == 0
    written = (tmp_path / "trained" / "model.safetensors").stat().st_mtime_ns
    assert run.main(request(tmp_path, make_phase, inputs=inputs)) == 0
    assert "is there already" in caplog.text
    other = make_phase(steps=3).model_dump(mode="json")
    assert run.main(request(tmp_path, make_phase, inputs=inputs, config=other)) == 2
    assert "is not empty, and not from this request" in caplog.text
    assert (tmp_path / "trained" / "model.safetensors").stat().st_mtime_ns == written
