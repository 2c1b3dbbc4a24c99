"""What this machine has for the work: processors and memory, as far as this process may use them."""

import os
from pathlib import Path

import psutil

GIB = 2**30
_GROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def cpu_count() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def thread_count(wanted: int) -> int:
    """`wanted` threads, or one for each processor where it is 0."""
    return wanted if wanted > 0 else cpu_count()


def memory_bytes() -> int:
    """Memory of the machine, or what the control group (a container) allows, if that is less."""
    total = int(psutil.virtual_memory().total)
    for name in _GROUP_LIMITS:
        try:
            total = min(total, int(Path(name).read_text()))
        except (OSError, ValueError):  # no such group, or the word "max"
            continue
    return total


def memory_budget(gib: float | None) -> int:
    """Bytes an aligner may use: `gib` GiB, or half of what there is."""
    return memory_bytes() // 2 if gib is None else int(gib * GIB)
