"""The first sequences through model and loss before the first step: how long a training will take, and its memory."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from tasks.durations import in_words
from tasks.training.cost import MOMENTS
from tasks.training.forward import ForwardPass
from tasks.training.packed_batch import Batch
from tasks.training.sharded_tensor import local
from tasks.training.speed import peak_memory
from tasks.training.strategy import Prepared
from tasks.training.training_text import Rows

FEW, VERY_FEW = 100, 10  # micro batches ahead: with fewer it is tried less
BACKWARD = 2  # the backward pass costs as much as so many forward passes


@dataclass(frozen=True)
class Trial:
    """What the trial has shown of this process.

    Attributes:
        step_seconds: time of an optimizer step, without the optimizer's own arithmetic.
        score_seconds: time of a forward pass of one token.
        memory_bytes: peak with the optimizer's moments: of tensors on a GPU, on a CPU of the whole process.
    """

    step_seconds: float
    score_seconds: float
    memory_bytes: int

    def in_words(self, steps: int, scored_tokens: int = 0) -> str:
        """What is ahead, for people: `steps` steps, and validations of `scored_tokens` tokens in all."""
        seconds = steps * self.step_seconds + scored_tokens * self.score_seconds
        return (
            f"about {in_words(seconds)} for {steps:,} steps ({self.step_seconds:.3g} s each), about "
            f"{self.memory_bytes / 2**30:.2g} GiB of memory (measured with the first sequences)"
        )


@contextmanager
def leaving_no_trace(prepared: Prepared, device: torch.device) -> Iterator[None]:
    """Passes in training mode whose gradients and random draws are forgotten at the end."""
    prepared.objective.train()
    try:
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            yield
    finally:
        for parameter in prepared.parameters.values():
            parameter.grad = None


def try_out(
    gradients: Callable[[Batch], object],
    prepared: Prepared,
    rows: Rows,
    forward: ForwardPass,
    step_rows: int,
    steps: int,
) -> Trial:
    """Measure passes of one and of two micro batches, several times, of which the fastest counts: the difference is
    what a further micro batch costs, the rest is what a step costs once. For a short training one micro batch is tried
    twice, for a very short one once, and all are taken to cost as much.

    Weights, gradients and random state are then as before. All processes of a training must call it.

    Args:
        gradients: adds the gradients of a batch to those of the parameters, as in a step.
        prepared: the objective and what is trained.
        rows: the text.
        forward: says how large a micro batch is, and on which device.
        step_rows: sequences in a step.
        steps: steps ahead.
    """
    processes = forward.ranks.count
    own = math.ceil(step_rows / processes)
    micro = math.ceil(own / forward.micro_batch)

    def seconds(micro_batches: int) -> float:
        batch = rows.read(0, min(step_rows, micro_batches * forward.micro_batch * processes))
        begin = time.perf_counter()
        gradients(batch)
        _wait(forward.device)
        return time.perf_counter() - begin

    if forward.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(forward.device)  # what was tried before may have been more
    with leaving_no_trace(prepared, forward.device):
        ahead = micro * steps
        further = one = min(seconds(1) for _ in range(1 if ahead < VERY_FEW else 2 if ahead < FEW else 3))
        if ahead >= FEW and micro > 1:
            two = min(seconds(2), seconds(2))
            further = two - one if two > one else one
    places = forward.micro_batch * rows.read(0, 1).tokens.size
    return Trial(
        step_seconds=one + (micro - 1) * further,
        score_seconds=further / (1 + BACKWARD) / places / processes,
        memory_bytes=peak_memory(forward.device) + MOMENTS * trained_numbers(prepared),  # made in the first step
    )


def trained_numbers(prepared: Prepared) -> int:
    """How many numbers this process trains: its own rows of sharded weights."""
    return sum(local(parameter).numel() for parameter in prepared.parameters.values())


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
