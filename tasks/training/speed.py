"""Measured speed of a training."""

import time
from typing import Any


class Speed:
    """Rows of this process: step, seconds since its first step, tokens a second since the row before."""

    def __init__(self, tokens_per_step: int) -> None:
        self.tokens_per_step = tokens_per_step
        self.rows: list[dict[str, Any]] = []
        self.start(0)

    def start(self, step: int) -> None:
        """Begin measuring with `step` steps done."""
        self._begin = self._last = time.perf_counter()
        self._last_step = step

    def measure(self, step: int) -> float:
        """Add the row of `step` and return its tokens a second."""
        now = time.perf_counter()
        rate = (step - self._last_step) * self.tokens_per_step / max(now - self._last, 1e-9)
        self.rows.append({"step": step, "seconds": now - self._begin, "tokens_per_second": rate})
        self._last, self._last_step = now, step
        return rate
