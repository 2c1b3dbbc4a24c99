"""Measured speed and memory of a training."""

import time
from typing import Any

import torch

from tasks.child import peak_memory_bytes


class Speed:
    """Rows of this process: step, seconds since its first step, tokens a second since the row before, peak memory.

    Tokens are those of the text; padding is told beside them.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.rows: list[dict[str, Any]] = []
        self.start(0, 0)

    def start(self, tokens: int, padding: int) -> None:
        """Begin measuring after `tokens` tokens and `padding` places without one."""
        self._begin = self._last = time.perf_counter()
        self._tokens, self._padding = tokens, padding
        self._first = tokens

    @property
    def seconds(self) -> float:
        """Time of the steps measured so far."""
        return self._last - self._begin

    @property
    def tokens_per_second(self) -> float:
        """Of all steps measured so far, what was done between them included."""
        return (self._tokens - self._first) / max(self.seconds, 1e-9)

    def measure(self, step: int, tokens: int, padding: int) -> float:
        """Add the row of `step`, with all `tokens` and `padding` so far, and return its tokens a second."""
        now = time.perf_counter()
        new, empty = tokens - self._tokens, padding - self._padding
        rate = new / max(now - self._last, 1e-9)
        self.rows.append(
            {
                "step": step,
                "seconds": now - self._begin,
                "tokens_per_second": rate,
                "padding_share": empty / max(1, new + empty),
                "peak_memory_bytes": peak_memory(self.device),
            }
        )
        self._last, self._tokens, self._padding = now, tokens, padding
        return rate


def peak_memory(device: torch.device) -> int:
    """The most memory used so far, bytes: of the GPU by tensors, on a CPU of the process."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    return peak_memory_bytes()
