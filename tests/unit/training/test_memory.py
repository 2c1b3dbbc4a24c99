import pytest
import torch

from tasks.training import loop
from tasks.training.memory import OutOfMemory, memory_advice, micro_batch_size

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
