import numpy as np
import pytest
import torch

from tasks.training import job, trial
from tasks.training.forward import ForwardPass
from tasks.training.packed_batch import Batch
from tasks.training.ranks import Ranks
from tasks.training.strategy import prepare
from tasks.training.trial import Trial, try_out

FIXED, EACH, FIRST = 3.0, 2.0, 100.0  # seconds of a step, of a micro batch, and what the first pass takes longer
SEQUENCE = 16


class Rows:
    """Rows of text that say where they were read."""

    def __init__(self):
        self.read_from = []

    def read(self, first, count):
        self.read_from.append(first)
        shape = (count, SEQUENCE)
        return Batch(np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.zeros(shape, np.int64))


class Clock:
    """Passes that take a known time."""

    def __init__(self, micro_batch, processes):
        self.now, self.batches, self.micro_batch, self.processes = 0.0, [], micro_batch, processes

    def gradients(self, batch):
        own = -(-len(batch) // self.processes)
        self.now += FIXED + EACH * -(-own // self.micro_batch) + (0 if self.batches else FIRST)
        self.batches.append(len(batch))


@pytest.fixture
def measured(make_llama, make_phase, monkeypatch):
    def measure(micro_batch, step_rows, steps, processes=1):
        prepared = prepare(make_llama(), make_phase(trainable="embeddings"), None)
        clock = Clock(micro_batch, processes)
        monkeypatch.setattr(trial.time, "perf_counter", lambda: clock.now)
        forward = ForwardPass(prepared.objective, "positions", False, micro_batch, Ranks(count=processes))
        found = try_out(clock.gradients, prepared, Rows(), forward, step_rows, steps)
        return found, clock.batches

    return measure


@pytest.mark.parametrize(
    ("micro_batch", "step_rows", "processes", "micro_batches", "batches"),
    [
        (2, 6, 1, 3, [2, 2, 2, 4, 4]),
        (4, 6, 1, 2, [4, 4, 4, 6, 6]),
        (6, 6, 1, 1, [6, 6, 6]),
        (9, 6, 1, 1, [6, 6, 6]),
        (2, 12, 2, 3, [4, 4, 4, 8, 8]),
        (2, 11, 2, 3, [4, 4, 4, 8, 8]),
    ],
)
def test_a_step_costs_a_part_once_and_a_part_in_each_micro_batch(
    measured, micro_batch, step_rows, processes, micro_batches, batches
):
    found, seen = measured(micro_batch, step_rows, 1000, processes)
    assert seen == batches
    assert found.step_seconds == FIXED + micro_batches * EACH


def test_scoring_is_a_third_of_a_pass(measured):
    found, _ = measured(2, 6, 1000)
    assert found.score_seconds == EACH / 3 / (2 * SEQUENCE)
    shared, _ = measured(2, 12, 1000, processes=2)
    assert shared.score_seconds == EACH / 3 / (2 * SEQUENCE) / 2


@pytest.mark.parametrize(("steps", "passes"), [(3, 1), (4, 2), (33, 2), (34, 5)])
def test_a_short_training_is_tried_less(measured, steps, passes):
    """Of 9, 12, 99 and 102 micro batches."""
    _, batches = measured(2, 6, steps)
    assert len(batches) == passes


def test_two_micro_batches_that_seem_faster_than_one_count_for_two(make_llama, make_phase, monkeypatch):
    prepared = prepare(make_llama(), make_phase(), None)
    times = iter([0.0, 9.0, 10.0, 14.0, 20.0, 25.0, 30.0, 33.0, 40.0, 48.0])
    monkeypatch.setattr(trial.time, "perf_counter", lambda: next(times))
    forward = ForwardPass(prepared.objective, "positions", False, 2)
    assert try_out(lambda batch: None, prepared, Rows(), forward, 6, 1000).step_seconds == 3 * 4.0


def test_memory_is_the_peak_and_the_moments(measured, monkeypatch):
    monkeypatch.setattr(trial, "peak_memory", lambda device: 1000)
    found, _ = measured(2, 6, 1000)
    assert found.memory_bytes == 1000 + 2 * 4 * 304 * 32


def test_in_words():
    text = Trial(step_seconds=1.5, score_seconds=0.01, memory_bytes=3 * 2**30).in_words(400, 6000)
    assert text == (
        "about 11 min for 400 steps (1.5 s each), about 3 GiB of memory (measured with the first sequences)"
    )


@pytest.mark.parametrize(
    "values", [{}, {"trainable": "lora"}, {"trainable": "adapter", "adapter": {"kind": "sparse"}}], ids=str
)
def test_the_model_is_the_same_with_and_without_a_trial(
    tmp_path, run_training, model_folder, make_phase, mapping, monkeypatch, values
):
    """Bit for bit, with dropout; the trial is of five passes."""
    monkeypatch.setattr(trial, "FEW", 1)
    config, further = make_phase(**values), {"mapping": mapping}
    notes = []
    tried = run_training(tmp_path / "a", model_folder, config, further=further, note=notes.append)
    monkeypatch.setattr(job, "try_out", lambda *args: Trial(1.0, 1.0, 1))
    plain = run_training(tmp_path / "b", model_folder, config, further=further)
    assert tried.contents() == plain.contents()
    assert len(notes) == 2
    assert "parameters trained, 8 steps" in notes[0]
    assert " for 8 steps (" in notes[1]


def test_what_is_left_after_a_stop_is_said(tmp_path, run_training, model_folder, make_phase, monkeypatch, caplog):
    caplog.set_level("INFO")
    whole = job.Trainer._take_step

    def broken(self):
        if self.step == 5:
            raise RuntimeError("lost")
        whole(self)

    monkeypatch.setattr(job.Trainer, "_take_step", broken)
    with pytest.raises(RuntimeError, match="lost"):
        run_training(tmp_path, model_folder, make_phase())
    monkeypatch.setattr(job.Trainer, "_take_step", whole)
    run_training(tmp_path, model_folder, make_phase())
    assert " for 8 steps (" in caplog.text
    assert " for 5 steps (" in caplog.text


def test_no_trace_is_left(make_llama, make_phase):
    prepared = prepare(make_llama(attention_dropout=0.5), make_phase(), None)
    before = [parameter.detach().clone() for parameter in prepared.parameters.values()]
    state = torch.get_rng_state()
    forward = ForwardPass(prepared.objective, "positions", False, 2)
    batches = []

    def gradients(batch):
        batches.append(forward.gradients(batch))

    try_out(gradients, prepared, Rows(), forward, 6, 1000)
    assert len(batches) == 5
    assert torch.equal(torch.get_rng_state(), state)
    assert all(parameter.grad is None for parameter in prepared.parameters.values())
    assert all(map(torch.equal, before, prepared.parameters.values()))
