"""Resuming gives the same bytes as never having stopped."""

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tasks.training import loop
from tasks.training.stop_signal import Interrupted

PROJECT = Path(__file__).resolve().parents[3]
CHILD = """
import sys
from pathlib import Path
from configs.schema import PhaseConfig
from tasks.contract import StageContext
from tasks.training.stage import STAGE

place, model, corpus = map(Path, sys.argv[1:4])
def progress(done, total, unit, message=""):
    print(done, unit, flush=True)
config = PhaseConfig.model_validate_json(sys.argv[4])
STAGE.run(StageContext(config, {"model": model, "corpus": corpus}, place / "out", place / "work", progress=progress))
"""


@pytest.fixture(scope="module")
def phase(make_phase):
    return make_phase(steps=12, checkpoint_every=3, log_every=1)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory, run_training, model_folder, phase):
    return run_training(tmp_path_factory.mktemp("whole"), model_folder, phase).contents()


class Killed(Exception):
    pass


def stop_at(step, action):
    def progress(done, total, unit, message=""):
        if unit == "steps" and done == step:
            action()

    return progress


def die():
    raise Killed


@pytest.mark.parametrize("step", [1, 3, 5, 9, 12])
def test_killed_in_process(tmp_path, run_training, model_folder, phase, uninterrupted, step):
    with pytest.raises(Killed):
        run_training(tmp_path, model_folder, phase, progress=stop_at(step, die))
    assert run_training(tmp_path, model_folder, phase).contents() == uninterrupted


def test_checkpoint_interval_changes_nothing(tmp_path, run_training, model_folder, phase, uninterrupted):
    often = phase.model_copy(update={"checkpoint_every": 1, "log_every": 5})
    with pytest.raises(Killed):
        run_training(tmp_path, model_folder, often, progress=stop_at(5, die))
    done = run_training(tmp_path, model_folder, phase)
    assert done.contents() == uninterrupted
    assert done.result.measurements[0]["step"] in (5, 6)


def test_damaged_checkpoint_in_a_run(tmp_path, run_training, model_folder, phase, uninterrupted, caplog):
    caplog.set_level(logging.INFO)
    with pytest.raises(Killed):
        run_training(tmp_path, model_folder, phase, progress=stop_at(8, die))
    newest = tmp_path / "work" / "checkpoints" / "step-000000006"
    with (newest / "state-00000-of-00001.safetensors").open("r+b") as file:
        file.truncate(1000)
    assert run_training(tmp_path, model_folder, phase).contents() == uninterrupted
    assert "step-000000006 cannot be used" in caplog.text
    assert "resumed after step 3" in caplog.text


def test_sigterm_saves_after_the_current_step(tmp_path, run_training, model_folder, phase, uninterrupted, monkeypatch):
    handler = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Interrupted, match="after step 5") as stopped:
        run_training(tmp_path, model_folder, phase, progress=stop_at(5, lambda: os.kill(os.getpid(), signal.SIGTERM)))
    assert stopped.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is handler
    assert (tmp_path / "work" / "checkpoints" / "step-000000005").is_dir()
    steps = []
    take_step = loop.Trainer._take_step
    monkeypatch.setattr(loop.Trainer, "_take_step", lambda self: (steps.append(self.step), take_step(self)))
    assert run_training(tmp_path, model_folder, phase).contents() == uninterrupted
    assert steps == list(range(5, 12))


def start_child(place, model, corpus, phase):
    for name in ("out", "work"):
        (place / name).mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-c", CHILD, str(place), str(model), str(corpus), phase.model_dump_json()]
    return subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True)


def signal_at(child, step, number, seconds=0.0):
    for line in child.stdout:
        if line == f"{step} steps\n":
            time.sleep(seconds)
            child.send_signal(number)
            break
    child.stdout.read()
    return child.wait(timeout=60)


def test_child_process_killed_and_terminated(tmp_path, corpus_folder, model_folder, phase, uninterrupted):
    """A real process: SIGKILL at two moments (a checkpoint is written after every step), SIGTERM, then to the end."""
    often = phase.model_copy(update={"checkpoint_every": 1})

    def start():
        return start_child(tmp_path, model_folder, corpus_folder, often)

    assert signal_at(start(), 2, signal.SIGKILL) == -signal.SIGKILL
    assert signal_at(start(), 4, signal.SIGKILL, seconds=0.012) == -signal.SIGKILL
    assert signal_at(start(), 8, signal.SIGTERM) == 143
    newest = max(path.name for path in (tmp_path / "work" / "checkpoints").glob("step-*"))
    assert "step-000000008" <= newest < "step-000000012"
    last = start()
    assert 1 <= last.stdout.read().count("steps") <= 5
    assert last.wait(timeout=60) == 0
    assert {file.name: file.read_bytes() for file in sorted((tmp_path / "out").iterdir())} == uninterrupted
