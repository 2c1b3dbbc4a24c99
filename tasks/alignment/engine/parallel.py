"""Threads for compiled kernels (which release the interpreter lock)."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any

import numpy as np

from tasks.alignment.links import Int64, Integers


def split(weights: Integers, parts: int) -> Int64:
    """Boundaries of `parts` consecutive ranges of about equal weight: int64 [parts + 1], from weights [N]."""
    sums = np.cumsum(weights, dtype=np.int64)
    total = int(sums[-1]) if len(sums) else 0
    inner = np.searchsorted(sums, [total * part // parts for part in range(1, parts)], side="left")
    return np.array([0, *inner, len(weights)], dtype=np.int64)


class Threads:
    """A pool of `count` threads, the calling one among them; a context manager."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool = ThreadPoolExecutor(count - 1, "align") if count > 1 else None

    def __enter__(self) -> "Threads":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def run(self, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        """The results of `function(*call)` for every call, at most `count` at a time, in the order of the calls."""
        if self._pool is None or len(calls) < 2:
            return [function(*call) for call in calls]
        shares = [calls[start :: self.count] for start in range(min(self.count, len(calls)))]

        def work(share: Sequence[tuple[Any, ...]]) -> list[Any]:
            return [function(*call) for call in share]

        others = [self._pool.submit(work, share) for share in shares[1:]]
        done = [work(shares[0]), *(other.result() for other in others)]
        return [done[number % self.count][number // self.count] for number in range(len(calls))]
