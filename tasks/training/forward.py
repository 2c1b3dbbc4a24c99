"""Micro batches through an objective, forward and backward."""

from typing import Any

import torch
from torch import Tensor, nn

from tasks.contract import InputError
from tasks.training.numerics import autocast
from tasks.training.objective import count_predictions, step_loss
from tasks.training.packed_attention import Method, PackedAttention, model_batch
from tasks.training.packed_batch import Batch


class ForwardPass:
    """Takes batches through `objective` in micro batches.

    Args:
        objective: `Objective` or `AdaptedObjective`, on its device.
        method: how documents in a row are told apart.
        bfloat16: forward passes in bfloat16.

    Attributes:
        micro_batch: rows in a forward pass.
        device: where the objective is.
    """

    def __init__(self, objective: Any, method: Method, bfloat16: bool, micro_batch: int = 1) -> None:
        self.objective, self.method, self.bfloat16, self.micro_batch = objective, method, bfloat16, micro_batch
        self.device = next(objective.parameters()).device

    def gradients(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Add the gradients of the mean loss of `batch` (of each head, summed) to those of the parameters.

        Returns:
            Predictions of each head [heads] int64 and their summed losses [heads] float32, on the device.
        """
        heads = len(getattr(self.objective, "extra_heads", ()))
        tokens, documents = (torch.from_numpy(array.copy()) for array in (batch.tokens, batch.documents))
        predictions = count_predictions(tokens, heads, documents).to(self.device)
        summed = torch.zeros(1 + heads, device=self.device)
        for part in batch.split(self.micro_batch):
            given = model_batch(part, self.method, self.device)
            with autocast(self.device, self.bfloat16):
                losses = self.objective(given.tokens, given.documents, **given.inputs)
            step_loss(losses, predictions).backward()  # type: ignore[no-untyped-call]
            summed += losses.summed.detach()
        return predictions, summed


def packing_method(base: nn.Module, packing: str, bfloat16: bool) -> Method:
    """How `base` is told where documents begin; plain rows have one document each, for which any way will do.

    Raises:
        InputError: the packing is 'documents', and no way keeps documents apart in this model.
    """
    if packing == "plain":
        return "positions"
    with autocast(next(base.parameters()).device, bfloat16):
        return PackedAttention(base).method


def checkpoint_activations(base: Any) -> None:
    """Let `base` compute its activations again in the backward pass.

    Raises:
        InputError: this kind of model cannot.
    """
    if not getattr(base, "supports_gradient_checkpointing", False):
        raise InputError(f"{type(base).__name__} has no gradient checkpointing: set gradient_checkpointing to false")
    base.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
