"""Resuming gives the same bytes as never having stopped (processes that are really killed: tests/e2e/test_kills.py)."""

import logging
import os
import signal

import pytest

from tasks.training import loop
from tasks.training.stop_signal import Interrupted


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
