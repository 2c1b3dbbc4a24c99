"""A causal language model as two halves: the base, which makes hidden states, and the LM head, logits of them."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tasks.contract import InputError
from tasks.training.evaluation_mode import evaluating

# Settings by which a family multiplies or divides its logits (Cohere, Falcon-H1; Granite), or bounds them (Gemma;
# RecurrentGemma; xLSTM). `check_halves` finds out where a family means something else by one of these names.
MULTIPLIERS = ("logit_scale", "lm_head_multiplier")
DIVISORS = ("logits_scaling",)
SOFTCAPS = ("final_logit_softcapping", "logits_soft_cap", "output_logit_soft_cap")
PROBE_TOKENS = 5
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-6}


@dataclass(frozen=True)
class LMHead:
    """What turns hidden states h into logits: softcap·tanh(scale·(h·weightᵀ + bias) / softcap).

    Attributes:
        weight: [V, d], the model's own parameter.
        bias: [V] or None, likewise.
        scale: factor of the logits.
        softcap: bound of the logits, or None.
    """

    weight: Tensor
    bias: Tensor | None
    scale: float
    softcap: float | None

    def logits(self, hidden: Tensor) -> Tensor:
        """The logits [..., V] of `hidden` [..., d]."""
        logits = nn.functional.linear(hidden, self.weight, self.bias) * self.scale
        return logits if self.softcap is None else self.softcap * torch.tanh(logits / self.softcap)


def lm_head(model: Any) -> LMHead:
    """The LM head of `model`, a causal language model of transformers, or one that PEFT has put LoRA into.

    Raises:
        InputError: it has none, or one that is more than a matrix and a bias.
    """
    model = without_peft(model)
    layer = model.get_output_embeddings()
    plain = layer.original_module if hasattr(layer, "modules_to_save") else layer  # PEFT's copy trained in full
    if not isinstance(plain, nn.Linear):
        raise InputError(
            f"{type(model).__name__} has {'no LM head' if layer is None else f'the LM head {type(layer).__name__}'}: "
            "a causal language model with a linear LM head is needed (with LoRA, the head is to be trained in full)"
        )
    settings = model.config.get_text_config()
    factors = [_setting(settings, name) for name in MULTIPLIERS]
    factors += [1 / factor for factor in (_setting(settings, name) for name in DIVISORS) if factor]
    softcaps = [softcap for softcap in (_setting(settings, name) for name in SOFTCAPS) if softcap]
    scale = math.prod(factor for factor in factors if factor is not None)
    return LMHead(layer.weight, layer.bias, scale, softcaps[0] if softcaps else None)


def base_model(model: Any) -> nn.Module:
    """The part of `model` below its LM head; its first output is the hidden states [batch, length, d].

    Raises:
        InputError: the model does not keep the two apart.
    """
    model = without_peft(model)
    base = model.base_model
    if base is model:  # Gemma 3 in transformers 4 and Llama 4 in transformers 5 name their base wrongly
        base = getattr(model, "model", None)
    if isinstance(base, nn.Module):
        return base
    raise InputError(f"{type(model).__name__} does not keep its LM head apart from the rest: it cannot be trained")


def without_peft(model: Any) -> Any:
    """The model of transformers inside `model` where PEFT has wrapped it, else `model`."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def check_halves(model: Any) -> None:
    """Make sure, on a few tokens, that LM head after base gives the model's own logits.

    Raises:
        InputError: it does not: the family does something to hidden states or logits that is not known here.
    """
    head, base = lm_head(model), base_model(model)
    tokens = torch.arange(min(PROBE_TOKENS, len(head.weight)), device=head.weight.device).unsqueeze(0)
    with torch.no_grad(), evaluating(model):
        hidden = base(input_ids=tokens, use_cache=False)[0].to(head.weight.dtype)
        expected = without_peft(model)(input_ids=tokens, use_cache=False).logits.double()
        if (expected.shape[-1], hidden.shape[-1]) != head.weight.shape:
            shapes = f"{list(head.weight.shape)} for {hidden.shape[-1]} numbers in and {expected.shape[-1]} out"
            raise _halves_differ(model, f"nothing: its matrix is {shapes}")
        found = head.logits(hidden).double()
    largest, difference = float(expected.abs().max()), float((found - expected).abs().max())
    if math.isnan(largest):
        wrong = [name for name, parameter in model.named_parameters() if not torch.isfinite(parameter).all()]
        raise InputError(
            f"the model's logits are no numbers; weights that are none: {', '.join(wrong[:3]) or 'none'}: take a whole "
            "copy of the model"
        )
    if not difference <= TOLERANCE.get(head.weight.dtype, 0.05) * max(1.0, largest):
        raise _halves_differ(model, f"logits that differ by up to {difference:.3g} (the largest is {largest:.3g})")


def _halves_differ(model: Any, how: str) -> InputError:
    return InputError(
        f"{type(without_peft(model)).__name__}: its LM head, applied to the hidden states of its base, gives {how}: "
        "this kind of model cannot be trained here yet"
    )


def _setting(settings: Any, name: str) -> float | None:
    value = getattr(settings, name, None)
    return None if value is None else float(value)
