"""Micro batches through an objective, forward and backward."""

from typing import Any

import torch
from torch import Tensor, nn

from tasks.contract import InputError
from tasks.training.numerics import autocast
from tasks.training.objective import count_predictions, step_loss
from tasks.training.packed_attention import Method, PackedAttention, model_batch
from tasks.training.packed_batch import Batch
from tasks.training.ranks import ALONE, Ranks


class ForwardPass:
    """Takes batches through `objective` in micro batches.

    Args:
        objective: `Objective` or `AdaptedObjective`, on its device.
        method: how documents in a row are told apart.
        bfloat16: forward passes in bfloat16.
        ranks: the processes that share the rows of a step.

    Attributes:
        micro_batch: rows in a forward pass.
        device: where the objective is.
    """

    def __init__(
        self, objective: Any, method: Method, bfloat16: bool, micro_batch: int = 1, ranks: Ranks = ALONE
    ) -> None:
        self.objective, self.method, self.bfloat16, self.micro_batch = objective, method, bfloat16, micro_batch
        self.ranks = ranks
        self.device = next(objective.parameters()).device

    def gradients(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Add the gradients of the mean loss of `batch` (of each head, summed) to those of the parameters.

        Of several processes each takes its share of the rows, and the gradients of all are to be added up. Sharded ones
        are averaged by the backward passes already: the loss is multiplied by the number of processes.

        Returns:
            Predictions of each head in the whole `batch`, [heads] int64, and the summed losses of this process's rows,
            [heads] float32, on the device.
        """
        heads = len(getattr(self.objective, "extra_heads", ()))
        tokens, documents = (torch.from_numpy(array.copy()) for array in (batch.tokens, batch.documents))
        predictions = count_predictions(tokens, heads, documents).to(self.device)
        summed = torch.zeros(1 + heads, device=self.device)
        factor = self.ranks.count if self.ranks.sharded else 1
        for part in self.ranks.share(batch).split(self.micro_batch):
            given = model_batch(part, self.method, self.device)
            with autocast(self.device, self.bfloat16):
                losses = self.objective(given.tokens, given.documents, **given.inputs)
            (factor * step_loss(losses, predictions)).backward()  # type: ignore[no-untyped-call]
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
    if hasattr(base, "activation_checkpointing_enable"):  # its name in newer versions of transformers
        base.activation_checkpointing_enable({"use_reentrant": False})
    else:
        base.gradient_checkpointing_enable({"use_reentrant": False})
