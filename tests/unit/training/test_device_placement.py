"""Nothing of a step is left on the CPU: torch's meta device, which has no data, stands for a GPU.

An operation on tensors of two devices is an error there as on a GPU. What needs the data itself is replaced.
"""

from contextlib import nullcontext

import numpy as np
import pytest
import torch

from tasks.training.forward import ForwardPass, packing_method
from tasks.training.packed_batch import Batch
from tasks.training.strategy import prepare

ELSEWHERE = torch.device("meta")


def two_documents_a_row(rows=4, length=16):
    tokens = np.random.default_rng(0).integers(3, 240, size=(rows, length))
    half = length // 2
    documents = np.tile([0] * half + [1] * half, (rows, 1))
    return Batch(tokens, documents, np.tile([*range(half), *range(half)], (rows, 1)))


@pytest.fixture
def without_data(monkeypatch):
    """Functions whose results depend on data give some of the right shape, on the device of what they get."""
    autocast, enabled = torch.autocast, torch.is_autocast_enabled
    unique, repeat = torch.unique, torch.repeat_interleave

    def some_unique(values, return_inverse=False, **named):
        if values.device != ELSEWHERE:
            return unique(values, return_inverse=return_inverse, **named)
        inverse = torch.arange(values.numel(), device=ELSEWHERE).view(values.shape)
        return (values.reshape(-1), inverse) if return_inverse else values.reshape(-1)

    def some_repeats(values, *counts, **named):
        size = {"output_size": 2 * values.numel()} if values.device == ELSEWHERE else {}
        return repeat(values, *counts, **{**named, **size})

    def no_autocast(device_type, *values, **named):
        return nullcontext() if device_type == "meta" else autocast(device_type, *values, **named)

    monkeypatch.setattr(torch, "unique", some_unique)
    monkeypatch.setattr(torch, "repeat_interleave", some_repeats)
    monkeypatch.setattr(torch, "autocast", no_autocast)
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda kind="cpu": kind != "meta" and enabled(kind))


KINDS = {
    "all": {},
    "documents": {"packing": "documents"},
    "mtp": {"trainable": "bottom-top", "layers": 1, "objective": "mtp", "extra_heads": 2},
    "lora": {"trainable": "lora"},
    "new-rows": {"trainable": "new-rows"},
    "dense": {"trainable": "adapter", "adapter": {"kind": "dense", "auxiliary": 0.0}},
    "sparse": {"trainable": "adapter", "adapter": {"kind": "sparse", "nearest": 2, "auxiliary": 0.1}},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_is_where_the_model_is(make_llama, make_phase, mapping, without_data, kind):
    config = make_phase(**KINDS[kind])
    prepared = prepare(make_llama(attention_dropout=0.1), config, mapping)
    method = packing_method(prepared.base, config.packing, bfloat16=False)
    prepared.objective.to(ELSEWHERE)
    prepared.objective.train()
    forward = ForwardPass(prepared.objective, method, False, micro_batch=2)
    with prepared.step():
        predictions, summed = forward.gradients(two_documents_a_row())
        if prepared.extra_loss is not None:
            prepared.extra_loss().backward()
    trained = [parameter for parameter in prepared.objective.parameters() if parameter.requires_grad]
    assert {predictions.device, summed.device} == {ELSEWHERE}
    assert trained
    assert all(parameter.grad is not None and parameter.grad.device == ELSEWHERE for parameter in trained)


def test_a_tensor_left_on_the_cpu_is_noticed(make_llama, make_phase, mapping, without_data):
    prepared = prepare(make_llama(), make_phase(), mapping)
    prepared.objective.to(ELSEWHERE)
    prepared.base.norm.to_empty(device="cpu")
    with pytest.raises(RuntimeError, match=r"same device|device meta"):
        ForwardPass(prepared.objective, "positions", False, micro_batch=2).gradients(two_documents_a_row())
