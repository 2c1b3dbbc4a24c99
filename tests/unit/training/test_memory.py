from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tasks.training import job, loop
from tasks.training.forward import ForwardPass
from tasks.training.memory import OutOfMemory, memory_advice, micro_batch_size
from tasks.training.packing import PackedText
from tasks.training.strategy import prepare
from tasks.training.training_text import OneText, TrainingText

CPU, GPU = torch.device("cpu"), torch.device("cuda")


def never(size):
    raise AssertionError("nothing is tried")


@pytest.mark.parametrize(
    ("micro", "length", "device", "size"),
    [(4, 16, CPU, 4), (40, 16, GPU, 24), ("auto", 512, CPU, 8), ("auto", 16, CPU, 24)],
)
def test_sizes_without_a_trial(make_phase, micro, length, device, size):
    phase = make_phase(batch_size=24, micro_batch_size=micro, sequence_length=length)
    assert micro_batch_size(phase, device, never) == size


@pytest.mark.parametrize(("limit", "size"), [(100, 24), (24, 24), (23, 12), (7, 6), (2, 2), (1, 1)])
def test_the_most_that_fits(make_phase, limit, size):
    phase = make_phase(batch_size=24, micro_batch_size="auto")
    assert micro_batch_size(phase, GPU, lambda wanted: wanted <= limit) == size


def test_nothing_fits(make_phase):
    phase = make_phase(name="large", batch_size=24, micro_batch_size="auto", gradient_checkpointing=True)
    with pytest.raises(OutOfMemory, match=r"phase 'large' does not fit into memory: lower sequence_length \(now 16\)"):
        micro_batch_size(phase, GPU, lambda wanted: False)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate memory: you tried"),
        RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        MemoryError(),
    ],
)
def test_want_of_memory_says_what_to_lower(tmp_path, run_training, model_folder, make_phase, monkeypatch, error):
    """Between two steps of a run; its checkpoint stays."""
    take_step = loop.Trainer._take_step

    def failing(self):
        if self.step == 5:
            raise error
        take_step(self)

    monkeypatch.setattr(loop.Trainer, "_take_step", failing)
    advice = (
        r"lower micro_batch_size \(now 4; .*set gradient_checkpointing to true; or lower sequence_length \(now 16\); "
        r"or train less than 'all'"
    )
    with pytest.raises(OutOfMemory, match=advice):
        run_training(tmp_path, model_folder, make_phase())
    assert [path.name for path in (tmp_path / "work" / "checkpoints").iterdir()] == ["step-000000003"]


def test_other_errors_pass(make_phase):
    with pytest.raises(RuntimeError, match="shapes"), memory_advice(make_phase()):
        raise RuntimeError("shapes do not fit")


@pytest.fixture
def trial(make_llama, make_phase, monkeypatch):
    """Tries micro batches of a step of 24 rows on a GPU (this CPU stands for it) that has memory for `limit` rows."""

    def make(limit, extra_loss=None):
        prepared = prepare(make_llama(attention_dropout=0.5), make_phase(), None)
        prepared = replace(prepared, extra_loss=extra_loss)
        text = PackedText(np.random.default_rng(0).integers(3, 240, size=(24, 16), dtype=np.int32), 24, 24 * 16)
        training = TrainingText(OneText(text, 0), {"target": text}, {"target": 1.0})
        forward, rows = ForwardPass(prepared.objective, "positions", False), []
        gradients = forward.gradients

        def limited(batch):
            rows.append((len(batch), forward.micro_batch))
            if forward.micro_batch > limit:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return gradients(batch)

        monkeypatch.setattr(forward, "gradients", limited)
        monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(total_memory=2500))
        return prepared, rows, lambda size: job._fits(prepared, training, forward, (size, 24))

    return make


@pytest.mark.parametrize(("limit", "tried"), [(24, [(24, 24)]), (6, [(24, 24), (24, 12), (12, 6)])])
def test_two_micro_batches_are_tried_and_forgotten(trial, make_phase, limit, tried):
    prepared, rows, fits = trial(limit)
    state = torch.get_rng_state()
    assert micro_batch_size(make_phase(batch_size=24, micro_batch_size="auto"), GPU, fits) == limit
    assert rows == tried
    assert torch.equal(torch.get_rng_state(), state)
    assert all(parameter.grad is None for parameter in prepared.parameters.values())


def test_what_is_added_to_the_loss_is_tried_too(trial):
    tried = []
    _, _, fits = trial(24, lambda: tried.append(1) or torch.zeros((), requires_grad=True))
    assert fits(12)
    assert tried == [1]
