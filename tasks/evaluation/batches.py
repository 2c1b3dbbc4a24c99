"""Windows of like length put together, padded at the right."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from tasks.evaluation.windows import Window


def batches(windows: Sequence[Window], batch_size: int) -> Iterator[list[int]]:
    """Numbers of the windows of each batch, longest windows first; equal lengths keep their order.

    The longest batch comes first so that memory that does not suffice fails at once.
    """
    order = np.argsort([-len(window.ids) for window in windows], kind="stable")
    for start in range(0, len(order), batch_size):
        yield [int(number) for number in order[start : start + batch_size]]


def padded(windows: Sequence[Window]) -> tuple[Tensor, Tensor]:
    """One batch as rectangles.

    Args:
        windows: the batch, at least one window.

    Returns:
        ids int64 [batch, longest], 0 at the padding; mask bool [batch, longest], true where there is a token.
    """
    lengths = torch.tensor([len(window.ids) for window in windows])
    ids = torch.zeros(len(windows), int(lengths.max()), dtype=torch.int64)
    for row, window in enumerate(windows):
        ids[row, : len(window.ids)] = torch.tensor(window.ids)
    mask = torch.arange(ids.shape[1]).unsqueeze(0) < lengths.unsqueeze(1)
    return ids, mask
