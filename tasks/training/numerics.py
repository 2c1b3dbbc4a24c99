"""Where and how exactly a training computes: device, precision, threads, determinism, random state."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Literal

import numpy as np
import torch

from tasks.contract import InputError


def choose_device(wanted: Literal["auto", "cpu", "cuda"], number: int = 0) -> torch.device:
    """The device to use; 'auto' takes a GPU where there is one: that of `number`, which becomes torch's current one.

    Raises:
        InputError: 'cuda' is wanted and there is none, or there are too few.
    """
    if wanted == "cuda" and not torch.cuda.is_available():
        raise InputError("device 'cuda' is not available on this machine: set device to 'auto' or 'cpu'")
    if wanted == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    if number >= torch.cuda.device_count():
        raise InputError(
            f"process {number} on this machine has no GPU of its own (there are {torch.cuda.device_count()}): start "
            "one process for each GPU"
        )
    torch.cuda.set_device(number)
    return torch.device("cuda", number)


def uses_bfloat16(precision: Literal["auto", "float32", "bfloat16"], device: torch.device) -> bool:
    """Whether the forward pass is computed in bfloat16; 'auto' only on a GPU that has it."""
    if precision == "auto":
        return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return precision == "bfloat16"


def autocast(device: torch.device, bfloat16: bool) -> AbstractContextManager[object]:
    """The context of a forward pass; weights stay float32."""
    return torch.autocast(device.type, dtype=torch.bfloat16) if bfloat16 else nullcontext()


def seed_of_rank(seed: int, rank: int) -> int:
    """The seed of dropout in one of several processes: another for each, in the first one `seed` itself."""
    return seed if rank == 0 else int(np.random.SeedSequence((seed, rank)).generate_state(1)[0])


def threads_of_a_process(processes: int) -> int:
    """CPU threads of one of several processes on this machine.

    OMP_NUM_THREADS says it, unless it is 1, which torchrun and `accelerate launch` set where a person has not.
    """
    chosen = os.environ.get("OMP_NUM_THREADS", "1")
    if chosen.isdigit() and int(chosen) > 1:
        return int(chosen)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // processes)


@contextmanager
def numeric_settings(device: torch.device, threads: int, seed: int, processes: int = 1) -> Iterator[None]:
    """Threads (0: torch's default, all cores, divided among the `processes` here), seeded random state, and on a CPU
    deterministic algorithms.

    All of it is as before at the end. On a CPU the same inputs and the same number of threads give the same bits;
    another number of threads may round sums otherwise.
    """
    threads_before = torch.get_num_threads()
    deterministic_before = torch.are_deterministic_algorithms_enabled()
    warn_before = torch.is_deterministic_algorithms_warn_only_enabled()
    fill_before = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]  # missing in the stubs
    devices = [torch.cuda.current_device()] if device.type == "cuda" else []
    try:
        with torch.random.fork_rng(devices=devices):
            if threads or processes > 1:
                torch.set_num_threads(threads or threads_of_a_process(processes))
            if device.type == "cpu":
                torch.use_deterministic_algorithms(True, warn_only=True)
                _fill_uninitialized_memory(False)
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(threads_before)
        torch.use_deterministic_algorithms(deterministic_before, warn_only=warn_before)
        _fill_uninitialized_memory(fill_before)


def _fill_uninitialized_memory(fill: bool) -> None:
    torch.utils.deterministic.fill_uninitialized_memory = fill  # type: ignore[attr-defined]  # missing in the stubs


def random_state(device: torch.device) -> dict[str, torch.Tensor]:
    """The state of torch's random generators, by device type: uint8 tensors."""
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state()
    return states


def restore_random_state(states: dict[str, torch.Tensor], device: torch.device) -> None:
    """Set the generators to `states`; a state of a device that is not used here is ignored."""
    torch.set_rng_state(states["cpu"])
    if device.type == "cuda" and "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"])
