"""Rows at length 1."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray


def unit_rows(rows: NDArray[np.floating[Any]], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """The rows divided by their length, in float64; rows of zeros stay zeros.

    Args:
        rows: [n, d].
        dtype: type of the result.

    Returns:
        [n, d].
    """
    lengths = np.sqrt(np.einsum("rd,rd->r", rows, rows, dtype=np.float64))
    scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    return torch.from_numpy(rows * scale[:, None]).to(dtype)
