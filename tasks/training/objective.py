"""What training minimises: prediction of the next token (CLM), or of the next few (MTP)."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from tasks.contract import InputError
from tasks.training.linear_cross_entropy import IGNORED, linear_cross_entropy, token_losses
from tasks.training.lm_head import LMHead, base_model, check_halves, lm_head


class Losses(NamedTuple):
    """Losses of a batch, one for the LM head and one for each extra head.

    Attributes:
        summed: [1 + extra heads] float32, nats, summed over the predictions.
        predictions: [1 + extra heads] int64, how many there are.
    """

    summed: Tensor
    predictions: Tensor


class Objective(nn.Module):
    """A causal language model together with its loss: `clm` without extra heads, `mtp` with some.

    Extra head i = 1…k predicts token t+1+i from the hidden state at t; all heads see the same hidden states (Yamaguchi
    et al. 2024, multi-token prediction; METHODS 3). Each begins as a copy of the LM head, with its scale and
    soft-capping (the published code caps the LM head only), and is a parameter 'extra_heads.<i-1>.weight' (and 'bias').
    The model itself is not changed: what is saved at the end is `model`, and the extra heads are gone.

    The forward pass is a module's own, so that DDP and FSDP can wrap the whole.

    Args:
        model: a causal language model of transformers, or one that PEFT has put LoRA into.
        extra_heads: k.
        chunk: tokens whose logits exist at a time; None chooses by the vocabulary's size.

    Raises:
        InputError: `extra_heads` is negative, or the model is of an unknown kind.
    """

    def __init__(self, model: Any, extra_heads: int = 0, chunk: int | None = None) -> None:
        super().__init__()
        if extra_heads < 0:
            raise InputError(f"extra_heads is {extra_heads}: give 0 (next token only) or more")
        check_halves(model)
        self.model = model
        self.chunk = chunk
        head = lm_head(model)
        self.extra_heads = nn.ModuleList(_copy(head) for _ in range(extra_heads))

    def forward(self, tokens: Tensor, documents: Tensor | None = None, **inputs: Any) -> Losses:
        """Losses of a batch.

        Args:
            tokens: [batch, length] int64.
            documents: [batch, length] integers, the same for neighbouring tokens of one document; nothing is predicted
                from one document to another. Negative where there is no token. None: each row is one document.
            inputs: what else the base model gets (position_ids, attention_mask).
        """
        hidden = self._hidden(tokens, inputs)
        labels = [labels_ahead(tokens, ahead, documents) for ahead in range(1 + len(self.extra_heads))]
        summed = [
            linear_cross_entropy(
                hidden, head.weight, wanted.flatten(),
                bias=head.bias, scale=head.scale, softcap=head.softcap, chunk=self.chunk,
            )
            for head, wanted in zip(self._heads(), labels, strict=True)
        ]  # fmt: skip
        return Losses(torch.stack(summed), torch.stack([(wanted != IGNORED).sum() for wanted in labels]))

    def token_losses(self, tokens: Tensor, documents: Tensor | None = None, **inputs: Any) -> Tensor:
        """The LM head's loss at each position, without gradients: [batch, length] float32, 0 where there is no label.

        The loss at t is that of token t+1. Arguments as for `forward`. Dropout is as the model's mode says.
        """
        with torch.no_grad():
            hidden, head = self._hidden(tokens, inputs), lm_head(self.model)
            losses = token_losses(
                hidden, head.weight, labels_ahead(tokens, 0, documents).flatten(),
                bias=head.bias, scale=head.scale, softcap=head.softcap, chunk=self.chunk,
            )  # fmt: skip
        return losses.view(tokens.shape)

    def _hidden(self, tokens: Tensor, inputs: Mapping[str, Any]) -> Tensor:
        hidden: Tensor = base_model(self.model)(input_ids=tokens, use_cache=False, **inputs)[0]
        return hidden.flatten(0, 1)

    def _heads(self) -> list[LMHead]:
        """The heads, read anew each time: DDP, FSDP and `to` may have put other tensors in their places."""
        own = lm_head(self.model)
        extra: list[Any] = list(self.extra_heads)
        return [own, *(LMHead(layer.weight, layer.bias, own.scale, own.softcap) for layer in extra)]


def labels_ahead(tokens: Tensor, ahead: int, documents: Tensor | None = None) -> Tensor:
    """What position t is to predict: token t+1+`ahead`, or -100 where that is in another document or beyond the row.

    Args:
        tokens: [batch, length] int64.
        ahead: tokens skipped; 0 for the next token.
        documents: [batch, length] integers, as for `Objective.forward`.

    Returns:
        [batch, length] int64.
    """
    shift = ahead + 1
    labels = torch.full_like(tokens, IGNORED)
    if shift < tokens.shape[1]:
        labels[:, :-shift] = tokens[:, shift:]
        if documents is not None:
            same = (documents[:, :-shift] == documents[:, shift:]) & (documents[:, shift:] >= 0)
            labels[:, :-shift].masked_fill_(~same, IGNORED)
    return labels


def count_predictions(tokens: Tensor, extra_heads: int = 0, documents: Tensor | None = None) -> Tensor:
    """How many predictions each head has on a batch (a whole step's, before it is cut into micro batches).

    Args:
        tokens: [batch, length] int64.
        extra_heads: k.
        documents: as for `Objective.forward`.

    Returns:
        [1 + extra heads] int64.
    """
    return torch.stack([(labels_ahead(tokens, ahead, documents) != IGNORED).sum() for ahead in range(1 + extra_heads)])


def step_loss(losses: Losses, predictions: Tensor) -> Tensor:
    """A micro batch's share of the step's loss: Σ over heads of summed loss / the step's predictions; [] float32.

    Over a step's micro batches these add up to Σ over heads of the mean loss, whatever their sizes. A head without
    predictions adds nothing.

    Args:
        losses: of the micro batch.
        predictions: [1 + extra heads] int64, of the whole step (all micro batches, all ranks).
    """
    return (losses.summed / predictions.clamp_min(1).to(losses.summed.dtype)).sum()


def _copy(head: LMHead) -> nn.Linear:
    rows, width = head.weight.shape
    layer = nn.Linear(width, rows, bias=head.bias is not None, device="meta", dtype=head.weight.dtype)
    layer.weight = nn.Parameter(head.weight.detach().clone())
    if head.bias is not None:
        layer.bias = nn.Parameter(head.bias.detach().clone())
    return layer
