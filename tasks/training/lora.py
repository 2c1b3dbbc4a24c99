"""LoRA: low-rank matrices beside the linear layers of a model, put into them at the end (PEFT)."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from tasks.contract import InputError
from tasks.training.trainable import decoder_layers

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LoraSettings:
    """Attributes: rank; alpha (the product of the two matrices is scaled by alpha / rank); dropout before them."""

    rank: int
    alpha: float
    dropout: float


def add_lora(model: Any, settings: LoraSettings, seed: int) -> Any:
    """`model` in PEFT's wrapper: low-rank matrices at every linear layer of its decoder layers, all else frozen.

    The embeddings and the LM head stay the model's own (nothing is copied, a tied head stays tied); who wants them
    trained marks them. The new matrices are float32 and drawn with `seed`; torch's random state is left as it is.

    Args:
        model: a causal language model of transformers; changed.
        settings: size and scale of the matrices.
        seed: seed of the first matrices; the second ones are 0, so that the model computes what it did.

    Raises:
        InputError: the decoder layers cannot be found, or there is no linear layer in them.
    """
    from peft import LoraConfig, get_peft_model  # takes seconds to load

    targets = linear_layers(model)
    _warn_of_others(model, targets)
    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,  # type: ignore[arg-type]  # any number does
        lora_dropout=settings.dropout,
        target_modules=sorted(targets),
        fan_in_fan_out=any(isinstance(layer, Conv1D) for layer in targets.values()),
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # of the CPU alone, where the matrices are made
        return get_peft_model(model, config)


def _warn_of_others(model: nn.Module, targets: Mapping[str, nn.Module]) -> None:
    """Say which weights of the decoder layers are in no linear layer: experts kept as one tensor, for instance."""
    reached = {id(parameter) for layer in targets.values() for parameter in layer.parameters()}
    matrices = {name: p for name, p in decoder_layers(model).named_parameters() if p.ndim > 1}
    others = {name: p for name, p in matrices.items() if id(p) not in reached}
    if others:
        share = sum(p.numel() for p in others.values()) / sum(p.numel() for p in matrices.values())
        log.warning(
            "LoRA adds nothing to %d weights of the decoder layers, which are in no linear layer and stay as they are: "
            "%s … (%.1f%% of the layers' numbers)", len(others), next(iter(others)), 100 * share,
        )  # fmt: skip


def merge_lora(wrapped: Any) -> Any:
    """The ordinary model inside `wrapped`, its weights with the trained products added, all of them trainable again.

    Raises:
        ValueError: a product is not finite.
    """
    model = wrapped.merge_and_unload(safe_merge=True)
    if hasattr(model, "peft_config"):
        del model.peft_config
    return model.requires_grad_(True)


def linear_layers(model: nn.Module) -> dict[str, nn.Module]:
    """The linear layers inside the decoder layers (projections of attention and of the feed-forward part), by name.

    Raises:
        InputError: the decoder layers cannot be found, or there is no linear layer in them.
    """
    stack = decoder_layers(model)
    inside = {id(module) for module in stack.modules() if isinstance(module, (nn.Linear, Conv1D))}
    found = {name: module for name, module in model.named_modules() if id(module) in inside}
    if not found:
        raise InputError(f"{type(model).__name__} has no linear layers in its decoder layers: LoRA has nothing to add")
    return found
