"""What more processors of this machine can do at all: a kernel that shares nothing, in one thread and in several.

Processors that the system shows may be two halves of one; a neighbour on the same host may use the other half, or not.
"""

import math
import time
from concurrent.futures import ThreadPoolExecutor

import numba

STEPS = 20_000_000
ROUNDS = 3


@numba.njit(nogil=True, cache=True)
def _spin(steps: int) -> float:
    total = 0.0
    for k in range(steps):
        total += math.exp(-0.01 * (k % 100))
    return total


def processors_gain(threads: int) -> float:
    """How many times faster `threads` threads do the same work without memory or locks than one; the best of rounds."""
    _spin(1)
    best = [math.inf, math.inf]
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(ROUNDS):
            for place, share in enumerate((1, threads)):
                started = time.perf_counter()
                for future in [pool.submit(_spin, STEPS // share) for _ in range(share)]:
                    future.result()
                best[place] = min(best[place], time.perf_counter() - started)
    return best[0] / best[1]
