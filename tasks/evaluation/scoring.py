"""Sends windows through a model and returns the loss of each."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tasks.contract import Progress, no_progress
from tasks.evaluation.batches import batches, padded
from tasks.evaluation.nll import sentence_nll
from tasks.evaluation.windows import Window


def score(
    model: Any, windows: Sequence[Window], batch_size: int, progress: Progress = no_progress
) -> NDArray[np.float64]:
    """Negative log-likelihood of every window, in nats.

    Padding is at the right and masked, so a window's loss does not depend on its batch but for rounding.

    Args:
        model: causal language model of transformers, in evaluation mode, on its device.
        windows: what is scored.
        batch_size: windows in a forward pass.
        progress: told the tokens done.

    Returns:
        float64 [windows], in the order of `windows`.
    """
    losses = np.zeros(len(windows), dtype=np.float64)
    total = sum(len(window.ids) for window in windows)
    done = 0
    with torch.inference_mode():
        for numbers in batches(windows, batch_size):
            ids, mask = padded([windows[number] for number in numbers])
            ids, mask = ids.to(model.device), mask.to(model.device)
            logits = model(input_ids=ids, attention_mask=mask.long(), use_cache=False).logits
            losses[numbers] = sentence_nll(logits, ids, mask).cpu().numpy()
            done += int(mask.sum())
            progress(done, total, "tokens")
    return losses
