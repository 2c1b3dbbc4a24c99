"""Checks of an initial model at work: it reads held-out text and writes a few tokens."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tasks.embeddings.check import Check

TEXTS = 8
TEXT_TOKENS = 32
PROMPT_TOKENS = 8
NEW_TOKENS = 8
SHIFT = 1.0
SPREAD = (0.5, 2.0)
LARGEST_SPREAD = 10.0
TOKEN_DEVIATION = 8.0
_BLOCK = 8192


def token_sequences(tokenizer: Any, texts: Sequence[str], tokens: int) -> list[list[int]]:
    """Sequences to read: the first texts, cut; without text, ids spread over the vocabulary."""
    ids = tokenizer(list(texts[:TEXTS]))["input_ids"] if texts else []
    found = [sequence[:TEXT_TOKENS] for sequence in ids if len(sequence) > 1]
    return found or np.linspace(0, tokens - 1, 2 * TEXT_TOKENS).astype(int).reshape(2, -1).tolist()


@torch.inference_mode()
def hidden_states(model: Any, sequences: Sequence[Sequence[int]]) -> tuple[torch.Tensor, bool]:
    """What the LM head is given at every position of `sequences`, and whether all logits are finite.

    Returns:
        float32 [positions, h]; a truth value.
    """
    seen: list[torch.Tensor] = []
    hook = model.get_output_embeddings().register_forward_pre_hook(
        lambda _, given: seen.append(given[0].detach().reshape(-1, given[0].shape[-1]).to(torch.float32))
    )
    try:
        finite = all(
            bool(torch.isfinite(model(input_ids=torch.tensor([list(sequence)])).logits).all()) for sequence in sequences
        )
    finally:
        hook.remove()
    return torch.cat(seen), finite


def check_forward(finite: bool, positions: int) -> Check:
    """All logits on held-out text are numbers."""
    figures = {"positions": positions}
    if not finite:
        return Check("forward pass", "failed", "logits are NaN or infinite", figures)
    return Check("forward pass", "passed", figures=figures)


@torch.inference_mode()
def check_generation(model: Any, tokenizer: Any, sequence: Sequence[int], tokens: int) -> Check:
    """A few tokens written greedily: finite logits, and no id without a token."""
    ids = list(sequence[:PROMPT_TOKENS])
    prompt, unread, cache = len(ids), ids, None
    for _ in range(NEW_TOKENS):
        found = model(input_ids=torch.tensor([unread]), past_key_values=cache, use_cache=True)
        logits, cache = found.logits[0, -1], found.past_key_values
        if not bool(torch.isfinite(logits).all()):
            return Check("generation", "failed", f"logits are NaN or infinite after {len(ids) - prompt} tokens")
        unread = [int(logits.argmax())]
        ids = ids + unread
    beyond = sorted({i for i in ids if i >= tokens})
    if beyond:
        return Check("generation", "failed", f"rows without a token are generated: {beyond[:5]}", rows=beyond)
    text = {"prompt": tokenizer.decode(ids[:prompt]), "text": tokenizer.decode(ids[prompt:])}
    return Check("generation", "passed", figures={"tokens": NEW_TOKENS}, measured=text)


def check_logits(
    hidden: torch.Tensor,
    new: tuple[torch.Tensor, torch.Tensor | None],
    made: NDArray[np.int64],
    old: tuple[torch.Tensor, torch.Tensor | None],
) -> Check:
    """Logits of the rows that are no copies, beside those that the source's rows give from the same hidden states.

    Mean and standard deviation are over positions and tokens, before any soft cap. A mean that is more than 1 standard
    deviation of the source's logits away, a standard deviation that is not 0.5 to 2 times the source's, or a token
    whose mean logit is more than 8 standard deviations of the source tokens' mean logits away is a warning; a standard
    deviation more than 10 times the source's is a failure.

    Args:
        hidden: float32 [positions, h].
        new: LM head [rows, h] and bias [rows] of the new model.
        made: ids of its rows that are no copies.
        old: LM head and bias of source tokens.
    """
    if not len(made):
        return Check("logits of new tokens", "passed", "every row is a copy")
    per_token, mean, deviation = _logits(hidden, *new, made)
    old_tokens, old_mean, old_deviation = _logits(hidden, *old, np.arange(len(old[0])))
    scale = max(old_deviation, float(np.finfo(np.float32).tiny))
    shift, spread = (mean - old_mean) / scale, deviation / scale
    away = np.abs(per_token - old_tokens.mean()) > TOKEN_DEVIATION * max(float(old_tokens.std()), 1e-6 * scale)
    measured = {
        "mean": mean, "deviation": deviation, "source_mean": old_mean, "source_deviation": old_deviation,
        "tokens_far_away": int(away.sum()),
    }  # fmt: skip
    reasons = []
    if abs(shift) > SHIFT:
        distance = f"{abs(shift):.2g} standard deviations of the source rows' logits"
        reasons.append(f"their mean, {mean:.3g}, is {distance} from the source's, {old_mean:.3g}")
    if not SPREAD[0] <= spread <= SPREAD[1]:
        reasons.append(f"their standard deviation, {deviation:.3g}, is {spread:.2g} times the source's")
    if away.any():
        reasons.append(
            f"{int(away.sum())} of {len(made)} tokens are further than {TOKEN_DEVIATION:g} standard deviations from "
            "the source tokens' mean logit"
        )
    status: Any = "warning" if reasons else "passed"
    if not np.isfinite(per_token).all() or spread > LARGEST_SPREAD:
        status = "failed"
    return Check("logits of new tokens", status, "; ".join(reasons), {}, measured, made[away])


def _logits(
    hidden: torch.Tensor, head: torch.Tensor, bias: torch.Tensor | None, rows: NDArray[np.int64]
) -> tuple[NDArray[np.float64], float, float]:
    """Mean logit of each of `rows`, float64 [rows]; mean and standard deviation over all of them and all positions."""
    means, squares = np.empty(len(rows)), 0.0
    for start in range(0, len(rows), _BLOCK):
        ids = torch.from_numpy(rows[start : start + _BLOCK])
        logits = head[ids].to(torch.float32) @ hidden.T
        if bias is not None:
            logits += bias[ids].to(torch.float32)[:, None]
        means[start : start + _BLOCK] = logits.mean(dim=1, dtype=torch.float64).numpy()
        squares += float(logits.square().sum(dtype=torch.float64))
    mean = float(means.mean())
    return means, mean, float(np.sqrt(max(squares / (len(rows) * len(hidden)) - mean**2, 0.0)))
