"""Cross entropy of a linear layer's logits, a block of tokens at a time: the logits of all tokens are never there.

The gradients are computed together with the loss, while the block's logits are at hand, and only multiplied by the
loss's own gradient in the backward pass. So one block of logits is all the memory that is needed beyond the gradients,
and no logits are computed twice.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

IGNORED = -100
# Logits held at once: on a CPU 128 MiB of float32, on a GPU 512 MiB of bfloat16, where each block's gradient is added
# to a matrix of float32 and fewer, larger blocks cost less.
BLOCK_LOGITS = {"cpu": 2**25, "cuda": 2**28}
# Logits turned into probabilities at once: on a CPU, for each thread, what stays in a core's cache. Less would have
# threads wait for one another too often.
SOFTMAX_LOGITS = {"cpu": 2**18, "cuda": 2**26}

Rows = slice | Tensor


def linear_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    labels: Tensor,
    *,
    bias: Tensor | None = None,
    scale: float = 1.0,
    softcap: float | None = None,
    chunk: int | None = None,
) -> Tensor:
    """Summed cross entropy (nats) of `labels` under softmax(c·tanh(s·(hidden·weightᵀ + bias) / c)), s scale, c softcap.

    Differentiable once, in `hidden`, `weight` and `bias`. A gradient that is not asked for is not computed, and none is
    where gradients are off. Under autocast the matrix products are done in its number format, softmax and sums in
    float32, as `linear` and `cross_entropy` would. At most `chunk` x V logits exist at any time, and softmax needs some
    MiB besides. The same inputs give the same bits on a CPU with the same number of threads.

    Args:
        hidden: [N, d], what the linear layer gets.
        weight: [V, d].
        labels: [N] int64 in 0…V-1, or -100 where nothing is predicted.
        bias: [V].
        scale: factor of the logits (Cohere's logit_scale, one over Granite's logits_scaling).
        softcap: bound of the logits (Gemma 2's final_logit_softcapping); None for none.
        chunk: tokens taken at a time; None chooses by the vocabulary's size.

    Returns:
        [] float32 (float64 where the inputs are).

    Raises:
        ValueError: shapes or `chunk` do not fit.
    """
    layer = _layer(hidden, weight, labels, _Rule(scale, softcap, chunk))
    differentiable = [tensor for tensor in (hidden, weight, bias) if tensor is not None and tensor.requires_grad]
    if torch.is_grad_enabled() and differentiable:
        summed: Tensor = _LinearCrossEntropy.apply(hidden, weight, bias, labels, layer)  # type: ignore[no-untyped-call]
        return summed
    with torch.no_grad():
        return _total(_compute(hidden, weight, bias, labels, layer, None))


def token_losses(
    hidden: Tensor,
    weight: Tensor,
    labels: Tensor,
    *,
    bias: Tensor | None = None,
    scale: float = 1.0,
    softcap: float | None = None,
    chunk: int | None = None,
) -> Tensor:
    """The losses that `linear_cross_entropy` sums, without gradients: [N] float32 (or float64), 0 where ignored."""
    layer = _layer(hidden, weight, labels, _Rule(scale, softcap, chunk))
    with torch.no_grad():
        return _compute(hidden, weight, bias, labels, layer, None)


@dataclass(frozen=True)
class _Rule:
    scale: float
    softcap: float | None
    chunk: int | None


@dataclass(frozen=True)
class _Layer:
    """How logits are made: number formats of the products and of the softmax, tokens a block and a softmax."""

    product: torch.dtype
    wide: torch.dtype
    scale: float
    softcap: float | None
    chunk: int
    softmax_rows: int


@dataclass
class _Gradients:
    """Gradients of the summed loss, or None where not asked for; filled block by block."""

    hidden: Tensor | None
    weight: Tensor | None
    bias: Tensor | None


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, layer: _Layer) -> Tensor:
        of_hidden, of_weight, of_bias = ctx.needs_input_grad[:3]
        gradients = _Gradients(
            torch.zeros_like(hidden, memory_format=torch.contiguous_format) if of_hidden else None,
            torch.zeros(weight.shape, dtype=layer.wide, device=weight.device) if of_weight else None,
            torch.zeros(weight.shape[:1], dtype=layer.wide, device=weight.device) if of_bias else None,
        )
        losses = _compute(hidden, weight, bias, labels, layer, gradients)
        if gradients.weight is not None:
            gradients.weight = gradients.weight.to(weight.dtype)
        if gradients.bias is not None and bias is not None:
            gradients.bias = gradients.bias.to(bias.dtype)
        ctx.gradients = (gradients.hidden, gradients.weight, gradients.bias)
        return _total(losses)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.gradients is None:
            raise RuntimeError("the loss's gradients are used up: call backward with retain_graph=True the first time")
        keep = _graph_is_kept()
        found = tuple(_multiplied(gradient, outer, keep) for gradient in ctx.gradients)
        if not keep:
            ctx.gradients = None  # so that autograd takes the tensors over and copies nothing
        return *found, None, None


def _graph_is_kept() -> bool:
    """Whether the running backward pass may be followed by another (if torch does not say: yes)."""
    asked = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", None)
    return asked is None or bool(asked())


def _multiplied(gradient: Tensor | None, outer: Tensor, keep: bool) -> Tensor | None:
    if gradient is None:
        return None
    return gradient * outer.to(gradient.dtype) if keep else gradient.mul_(outer)


def _layer(hidden: Tensor, weight: Tensor, labels: Tensor, rule: _Rule) -> _Layer:
    if hidden.ndim != 2 or weight.ndim != 2 or hidden.shape[1] != weight.shape[1] or labels.shape != hidden.shape[:1]:
        raise ValueError(
            f"hidden [N, d], weight [V, d] and labels [N] are needed, not {list(hidden.shape)}, {list(weight.shape)} "
            f"and {list(labels.shape)}"
        )
    if rule.chunk is not None and rule.chunk < 1:
        raise ValueError(f"chunk is {rule.chunk}: give 1 token or more")
    kind, vocabulary = hidden.device.type, max(1, weight.shape[0])
    at_once = SOFTMAX_LOGITS["cuda"] if kind == "cuda" else SOFTMAX_LOGITS["cpu"] * torch.get_num_threads()
    product = torch.promote_types(hidden.dtype, weight.dtype)
    if torch.is_autocast_enabled(kind) and product != torch.float64:
        product = torch.get_autocast_dtype(kind)
    return _Layer(
        product=product,
        wide=torch.promote_types(product, torch.float32),
        scale=rule.scale,
        softcap=rule.softcap,
        chunk=rule.chunk or max(1, BLOCK_LOGITS.get(kind, BLOCK_LOGITS["cpu"]) // vocabulary),
        softmax_rows=max(1, at_once // vocabulary),
    )


def _total(losses: Tensor) -> Tensor:
    return losses.sum(dtype=torch.float64).to(losses.dtype)


def _compute(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, layer: _Layer, gradients: _Gradients | None
) -> Tensor:
    """Losses [N] of all tokens; `gradients` are filled."""
    losses = torch.zeros(labels.shape, dtype=layer.wide, device=hidden.device)
    with torch.autocast(hidden.device.type, enabled=False):
        matrix = weight.to(layer.product)
        wide_bias = None if bias is None else bias.to(layer.wide)
        buffer: Tensor | None = None
        for rows, count in _blocks(labels, layer.chunk):
            if buffer is None:
                buffer = torch.empty(count, len(matrix), dtype=layer.product, device=hidden.device)
            block = hidden[rows].to(layer.product)
            logits = torch.mm(block, matrix.T, out=buffer[:count])
            losses[rows] = _block_losses(logits, wide_bias, labels[rows], layer, gradients is not None)
            if gradients is not None:
                _add_gradients(gradients, rows, logits, block, matrix)
    return losses


def _blocks(labels: Tensor, chunk: int) -> Iterator[tuple[Rows, int]]:
    """Tokens in blocks of nearly one size, the largest first. On a CPU, ignored ones are left out."""
    kept: Tensor | None = None
    if labels.device.type == "cpu":  # a GPU would have to be waited for
        counted = labels != IGNORED
        kept = None if bool(counted.all()) else counted.nonzero().squeeze(1)
    tokens = len(labels) if kept is None else len(kept)
    size = math.ceil(tokens / math.ceil(tokens / chunk)) if tokens else 1
    for start in range(0, tokens, size):
        stop = min(start + size, tokens)
        yield slice(start, stop) if kept is None else kept[start:stop], stop - start


def _block_losses(logits: Tensor, bias: Tensor | None, labels: Tensor, layer: _Layer, want_gradient: bool) -> Tensor:
    """Losses of a block's tokens; `logits`, before bias and all else, become the summed loss's gradient in them."""
    ignored = labels == IGNORED
    chosen = labels.masked_fill(ignored, 0).unsqueeze(1)
    losses = []
    for start in range(0, len(logits), layer.softmax_rows):
        rows = slice(start, start + layer.softmax_rows)
        final = _final_logits(logits[rows].to(layer.wide), bias, layer)
        probabilities = final.softmax(-1)
        # log Σ exp = largest logit - log of its probability: no further exponentials
        below_largest = final.amax(-1) - final.gather(1, chosen[rows]).squeeze(1)
        losses.append(below_largest - probabilities.amax(-1).log())
        if want_gradient:
            probabilities.scatter_(1, chosen[rows], probabilities.gather(1, chosen[rows]) - 1)
            probabilities.masked_fill_(ignored[rows].unsqueeze(1), 0)
            logits[rows] = _through_final_logits(probabilities, final, layer)
    return torch.cat(losses).masked_fill_(ignored, 0)


def _final_logits(logits: Tensor, bias: Tensor | None, layer: _Layer) -> Tensor:
    """Bias, scale and soft-capping, in place."""
    if bias is not None:
        logits.add_(bias)
    if layer.scale != 1:
        logits.mul_(layer.scale)
    if layer.softcap is not None:
        logits.div_(layer.softcap).tanh_().mul_(layer.softcap)
    return logits


def _through_final_logits(gradient: Tensor, final: Tensor, layer: _Layer) -> Tensor:
    """The gradient in the logits before scale and soft-capping from that in `final`; both are overwritten."""
    if layer.softcap is not None:
        gradient.mul_(final.div_(layer.softcap).square_().neg_().add_(1))  # tanh' = 1 - tanh²
    if layer.scale != 1:
        gradient.mul_(layer.scale)
    return gradient


def _add_gradients(gradients: _Gradients, rows: Rows, outer: Tensor, block: Tensor, matrix: Tensor) -> None:
    """Add what a block gives: `outer` [n, V] is the loss's gradient in its logits, `block` [n, d] its hidden states."""
    if gradients.hidden is not None:
        gradients.hidden[rows] = (outer @ matrix).to(gradients.hidden.dtype)
    if gradients.weight is not None:
        if gradients.weight.dtype == outer.dtype:
            gradients.weight.addmm_(outer.T, block)
        else:
            gradients.weight.add_(outer.T @ block)
    if gradients.bias is not None:
        gradients.bias.add_(outer.sum(0, dtype=gradients.bias.dtype))
