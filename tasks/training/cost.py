"""What a training will cost, said before it starts."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from configs.schema import PhaseConfig


@dataclass(frozen=True)
class TrainingCost:
    """Size of a training.

    Attributes:
        trained: parameters trained.
        total: parameters of the model.
        tokens: tokens over all steps.
        epochs: passes over the data.
        flops: floating-point operations over all steps.
        checkpoint_bytes: size of one checkpoint.
    """

    trained: int
    total: int
    tokens: int
    epochs: float
    flops: float
    checkpoint_bytes: int

    def __str__(self) -> str:
        return (
            f"{_short(self.trained)} of {_short(self.total)} parameters trained, {_short(self.tokens)} tokens "
            f"({self.epochs:.2f} passes over the data), {self.flops:.2e} FLOP, "
            f"checkpoints of {_short(self.checkpoint_bytes)}B"
        )


def training_cost(
    model: nn.Module, trained: Mapping[str, nn.Parameter], config: PhaseConfig, sequences: int
) -> TrainingCost:
    """The cost of training `trained` of `model` on `sequences` sequences as `config` says.

    FLOPs a token (Kaplan et al. 2020, section 2.1, split into its three products): with N the parameters that take
    part in matrix products (all but the input embeddings, unless they are also the head) and N_t the trained ones of
    them, 2N forward, 2N for the gradients of activations (the embeddings train, so they go all the way down) and 2·N_t
    for the gradients of weights: 6N when all train. Attention's products of activations are left out.
    """
    total = sum(parameter.numel() for parameter in model.parameters())
    multiplied, multiplied_trained = _multiplied(model)
    tokens = config.steps * config.batch_size * config.sequence_length
    trained_count = sum(parameter.numel() for parameter in trained.values())
    return TrainingCost(
        trained=trained_count,
        total=total,
        tokens=tokens,
        epochs=config.steps * config.batch_size / sequences,
        flops=float(tokens) * (4 * multiplied + 2 * multiplied_trained),
        checkpoint_bytes=3 * 4 * trained_count,
    )


def _multiplied(model: nn.Module) -> tuple[int, int]:
    lookup = {id(p) for p in model.get_input_embeddings().parameters()}  # type: ignore[operator]  # HF model
    head = model.get_output_embeddings()  # type: ignore[operator]  # HF model
    lookup -= {id(p) for p in head.parameters()}
    used = [p for p in model.parameters() if p.ndim >= 2 and id(p) not in lookup]
    return sum(p.numel() for p in used), sum(p.numel() for p in used if p.requires_grad)


def _short(count: float) -> str:
    for unit in ("", "k", "M", "G"):
        if count < 1000:
            return f"{count:.0f}" if unit == "" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} T"
