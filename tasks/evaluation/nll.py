"""Negative log-likelihood of text under a causal language model."""

import torch
from torch import Tensor


def sentence_nll(logits: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
    """Summed negative log-likelihood of every sequence's scored tokens, in nats.

    The token at position t is predicted by the logits at position t - 1, so the first token of a sequence is context
    only and `mask[:, 0]` is not read.

    Args:
        logits: float [batch, length, vocabulary], as the model gives them.
        ids: int64 [batch, length], the tokens, padded at the right with any id inside the vocabulary.
        mask: bool [batch, length], true where a token is scored; false on padding.

    Returns:
        float64 [batch]; log-probabilities are taken in float32 (or wider), their sum in float64.
    """
    predicted = logits[:, :-1]
    if predicted.dtype not in (torch.float32, torch.float64):
        predicted = predicted.float()
    targets = ids[:, 1:]
    chosen = predicted.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    token_nll = (torch.logsumexp(predicted, dim=-1) - chosen).double()
    return torch.where(mask[:, 1:], token_nll, 0.0).sum(dim=-1)
