"""Running out of memory: what to do about it, and micro batches that fit."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from configs.schema import PhaseConfig
from tasks.contract import InputError

TOKENS_ON_CPU = 4096
# What the CPU's allocator, CUDA, cuBLAS and NCCL say.
SIGNS = ("can't allocate memory", "not enough memory", "out of memory", "alloc_failed")


class OutOfMemory(InputError):
    """The training does not fit into memory; the last checkpoint is kept."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory did not suffice, on a GPU or a CPU."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and any(sign in text for sign in SIGNS)


@contextmanager
def memory_advice(config: PhaseConfig) -> Iterator[None]:
    """Turn an error for want of memory into one that says what to lower.

    Raises:
        OutOfMemory: memory did not suffice.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise OutOfMemory(_advice(config)) from error


def _advice(config: PhaseConfig) -> str:
    ways, micro_batch = [], config.micro_batch_size
    if micro_batch != "auto" and min(micro_batch, config.rows_per_step) > 1:
        ways.append(f"lower micro_batch_size (now {micro_batch}; the batch of a step stays as it is)")
    if not config.gradient_checkpointing:
        ways.append("set gradient_checkpointing to true")
    if config.processes.sharding == "none" and config.processes.count != 1:
        ways.append("set processes.sharding to 'full'")
    ways.append(f"lower sequence_length (now {config.sequence_length})")
    if config.trainable in ("all", "bottom-top", "embeddings+head"):
        ways.append(f"train less than {config.trainable!r} (lora, for instance)")
    return (
        f"phase {config.name!r} does not fit into memory: {'; or '.join(ways)}. The last checkpoint is kept; with "
        "another gradient_checkpointing alone, the run goes on from it"
    )


def micro_batch_size(config: PhaseConfig, device: torch.device, fits: Callable[[int], bool], processes: int = 1) -> int:
    """Sequences in a forward pass: as configured; with 'auto' some 4,096 tokens on a CPU, what fits on a GPU.

    Args:
        config: the phase.
        device: where it is trained.
        fits: whether forward and backward passes of so many sequences fit into the GPU's memory.
        processes: how many share the sequences of a step.

    Raises:
        OutOfMemory: not even one sequence fits.
    """
    rows = -(-config.rows_per_step // processes)
    if config.micro_batch_size != "auto":
        return min(rows, config.micro_batch_size)
    if device.type != "cuda":
        return min(rows, max(1, TOKENS_ON_CPU // config.sequence_length))
    size = rows
    while not fits(size):
        if size == 1:
            raise OutOfMemory(_advice(config))
        size = -(-size // 2)
    return size
