"""AdamW and its state as named tensors."""

from collections.abc import Collection, Mapping

import torch
from torch import nn

from configs.schema import OptimizationConfig
from tasks.training.checkpoint import Checkpoint

MOMENTS = ("exp_avg", "exp_avg_sq")


def make_optimizer(
    parameters: Mapping[str, nn.Parameter], no_decay: Collection[str], config: OptimizationConfig
) -> torch.optim.AdamW:
    """AdamW (Loshchilov & Hutter 2019) over `parameters`, without weight decay on those named in `no_decay`.

    The fused kernel updates each element by itself, so it is deterministic.
    """
    decayed = [parameter for name, parameter in parameters.items() if name not in no_decay]
    others = [parameter for name, parameter in parameters.items() if name in no_decay]
    groups = [{"params": decayed, "weight_decay": config.weight_decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=config.learning_rate,
        betas=(config.adam_beta1, config.adam_beta2),
        fused=True,
    )


def optimizer_tensors(optimizer: torch.optim.AdamW, parameters: Mapping[str, nn.Parameter]) -> dict[str, torch.Tensor]:
    """The moments of every parameter that has been updated, as '<moment>/<name>'."""
    return {
        f"{moment}/{name}": optimizer.state[parameter][moment]
        for name, parameter in parameters.items()
        if parameter in optimizer.state
        for moment in MOMENTS
    }


def restore_optimizer(
    optimizer: torch.optim.AdamW, parameters: Mapping[str, nn.Parameter], checkpoint: Checkpoint
) -> None:
    """Give `optimizer` the moments in `checkpoint` (as made by `optimizer_tensors`).

    Raises:
        ValueError: a moment has another shape than its parameter.
    """
    for name, parameter in parameters.items():
        if f"{MOMENTS[0]}/{name}" not in checkpoint:
            continue
        state: dict[str, torch.Tensor] = {"step": torch.tensor(float(checkpoint.step), device=parameter.device)}
        for moment in MOMENTS:
            state[moment] = torch.zeros_like(parameter, memory_format=torch.preserve_format)
            checkpoint.copy_to(state[moment], f"{moment}/{name}")
        optimizer.state[parameter] = state
