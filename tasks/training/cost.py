"""What a training will cost, said before it starts."""

from dataclasses import dataclass
from typing import Any

from torch import nn

from tasks.training.adapter_cost import AdapterSizes, TokenCost, dense_cost, sparse_cost
from tasks.training.adapter_dense import DenseAdapter
from tasks.training.adapter_objective import AdaptedObjective
from tasks.training.adapter_sparse import SparseAdapter
from tasks.training.course import Course
from tasks.training.lm_head import base_model
from tasks.training.strategy import Prepared
from tasks.training.training_text import TrainingText

# Bytes a number: weights, AdamW's two moments, and for trained ones these and the gradient, all float32.
WEIGHT, MOMENTS = 4, 8
TRAINED = WEIGHT + MOMENTS


@dataclass(frozen=True)
class TrainingCost:
    """Size of a training.

    Attributes:
        trained: parameters trained.
        total: parameters of the model, and of what is added to it for the training.
        steps: optimizer steps.
        tokens: tokens over all steps, padding not counted (exact where rows are full, else as many as are expected).
        places: tokens over all steps, padding counted.
        epochs: passes over the target text.
        flops: floating-point operations over all steps, padding counted.
        memory_bytes: weights, gradients and moments; activations come on top.
        checkpoint_bytes: size of one checkpoint.
    """

    trained: int
    total: int
    steps: int
    tokens: int
    places: int
    epochs: float
    flops: float
    memory_bytes: int
    checkpoint_bytes: int

    def __str__(self) -> str:
        padding = f", {1 - self.tokens / self.places:.1%} padding" if self.tokens < self.places else ""
        return (
            f"{_short(self.trained)} of {_short(self.total)} parameters trained, {self.steps:,} steps, "
            f"{_short(self.tokens)} tokens ({self.epochs:.2f} passes over the text{padding}), {self.flops:.2e} FLOP, "
            f"{_short(self.memory_bytes)}B of memory without activations, "
            f"checkpoints of {_short(self.checkpoint_bytes)}B"
        )


def training_cost(prepared: Prepared, text: TrainingText, course: Course, recomputed: bool = False) -> TrainingCost:
    """The cost of training `prepared` on `text`.

    Args:
        prepared: the objective and what is trained.
        text: the text.
        course: its steps.
        recomputed: activations are computed again in the backward pass.
    """
    draws = course.steps * course.rows
    places = draws * text.length
    trained = sum(parameter.numel() for parameter in prepared.parameters.values())
    total = sum(parameter.numel() for parameter in prepared.objective.parameters())
    a_token = token_flops(prepared.objective, course.rows * text.length, recomputed)
    return TrainingCost(
        trained=trained,
        total=total,
        steps=course.steps,
        tokens=round(draws * text.tokens_per_row),
        places=places,
        epochs=draws / text.rows_of_epochs(1.0),
        flops=places * a_token,
        memory_bytes=WEIGHT * total + TRAINED * trained,
        checkpoint_bytes=TRAINED * trained,
    )


def token_flops(objective: Any, step_tokens: int, recomputed: bool = False) -> float:
    """Operations a token, forward and backward.

    Kaplan et al. 2020, section 2.1, split into its three products: with N the parameters that take part in matrix
    products (all but the input embeddings, unless they are also the head) and N_t the trained ones of them, 2N forward,
    2N for the gradients of activations (the embeddings train, so they go all the way down) and 2·N_t for the gradients
    of weights: 6N when all train. Recomputed activations cost the layers' forward pass again. Attention's products of
    activations are left out. Vocabulary adapters: see `adapter_cost`.
    """
    if isinstance(objective, AdaptedObjective):
        sizes = _adapter_sizes(objective, step_tokens)
        dense = isinstance(objective.model.output_adapter, DenseAdapter)
        cost: TokenCost = dense_cost(sizes) if dense else sparse_cost(sizes)
        return cost.total + (2 * sizes.body if recomputed else 0)
    model = objective.model
    lookup = {id(parameter) for parameter in model.get_input_embeddings().parameters()}
    heads = {id(p) for p in [*model.get_output_embeddings().parameters(), *objective.extra_heads.parameters()]}
    matrices = [p for p in objective.parameters() if p.ndim >= 2 and (id(p) not in lookup or id(p) in heads)]
    used, trained = (sum(p.numel() for p in chosen) for chosen in (matrices, _training(matrices)))
    again = sum(p.numel() for p in matrices if id(p) not in heads) if recomputed else 0
    return float(4 * used + 2 * trained + 2 * again)


def _training(parameters: list[nn.Parameter]) -> list[nn.Parameter]:
    return [parameter for parameter in parameters if parameter.requires_grad]


def _adapter_sizes(objective: AdaptedObjective, step_tokens: int) -> AdapterSizes:
    adapted = objective.model
    table: Any = adapted.model.get_input_embeddings().weight
    ends = {id(table)}
    body = sum(p.numel() for p in base_model(adapted.model).parameters() if p.ndim >= 2 and id(p) not in ends)
    entries = [
        sum(p.numel() for p in adapter.parameters()) if isinstance(adapter, SparseAdapter) else 0
        for adapter in (adapted.input_adapter, adapted.output_adapter)
    ]
    return AdapterSizes(
        target=adapted.input_adapter.target_size,
        source=adapted.input_adapter.source_size,
        width=table.shape[1],
        body=body,
        input_entries=entries[0],
        output_entries=entries[1],
        step_tokens=step_tokens,
    )


def _short(count: float) -> str:
    for unit in ("", "k", "M", "G"):
        if count < 1000:
            return f"{count:.0f}" if unit == "" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} T"
