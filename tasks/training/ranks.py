"""The processes that train one model together, and what they tell each other.

Each is a rank, 0 to count - 1, as torchrun, `accelerate launch` and `launch` number them in the environment. They agree
on everything that is decided on the way, so that all take the same steps.
"""

import logging
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, distributed, nn

from tasks.contract import InputError
from tasks.training.packed_batch import PADDING, Batch, concatenate

# While the first process encodes the text or writes a checkpoint the others wait. One that has died is noticed by
# whoever started them. What goes from GPU to GPU has torch's own, shorter time.
PATIENCE = timedelta(hours=24)
BUCKET_NUMBERS = 2**24

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Ranks:
    """This process among those that train together. With one process nothing is sent and nothing changes.

    Attributes:
        rank: its number; the first one writes, logs and reports.
        count: how many there are.
        local_rank: its number among those on this machine, which is the number of its GPU.
        local_count: how many are on this machine.
        sharded: weights and optimizer's state are divided among them (`sharding`).
        patient: the group of all for what they agree on, by way of CPUs; None: torch's default group.
    """

    rank: int = 0
    count: int = 1
    local_rank: int = 0
    local_count: int = 1
    sharded: bool = False
    patient: Any = field(default=None, compare=False)

    @property
    def first(self) -> bool:
        """Whether this is the process that writes, logs and reports."""
        return self.rank == 0

    def share(self, batch: Batch) -> Batch:
        """This process's rows of a step. All have as many: rows of padding, which have no loss, fill them up."""
        own = batch[self.rank :: self.count]
        missing = -(-len(batch) // self.count) - len(own)
        return own if missing == 0 else concatenate([own, _padding(missing, batch)], np.arange(len(own) + missing))

    def sum(self, values: Tensor) -> Tensor:
        """The sum over the processes of `values`, in their place."""
        if self.count > 1:
            distributed.all_reduce(values, group=self.patient if values.device.type == "cpu" else None)
        return values

    def any(self, fact: bool) -> bool:
        """Whether it is a fact in any process."""
        return bool(self.sum(torch.tensor(float(fact)))) if self.count > 1 else fact

    def of_first(self, number: int) -> int:
        """The first process's `number`."""
        return int(self.sum(torch.tensor(number if self.first else 0)))

    def each(self, numbers: list[int]) -> list[list[int]]:
        """The `numbers` of each process (everywhere as many), in the order of the processes."""
        everywhere = torch.zeros(self.count, len(numbers), dtype=torch.int64)
        everywhere[self.rank] = torch.tensor(numbers)
        return self.sum(everywhere).tolist()

    def wait(self) -> None:
        """Go on when all processes have come here."""
        self.any(False)

    @contextmanager
    def first_alone(self) -> Iterator[None]:
        """A block that the first process does before all others, which then find what it has written."""
        if not self.first:
            self.wait()
        yield
        if self.first:
            self.wait()

    def check_shared(self, folder: Path) -> None:
        """Nothing, if `folder` is one and the same for all processes.

        Raises:
            InputError: it is not: each machine has its own, for instance.
        """
        if self.count == 1:
            return
        mark = folder / f"shared-{self.of_first(secrets.randbits(40))}"
        if self.first:
            folder.mkdir(parents=True, exist_ok=True)
            mark.touch()
        self.wait()
        missing = self.any(not mark.exists())
        if self.first:
            mark.unlink()
        if missing:
            raise InputError(f"the working folder {folder} is not the same for all processes: put it where all see it")

    @contextmanager
    def in_turn(self) -> Iterator[None]:
        """A block that the processes of a machine do one after another."""
        turns = max(count for (count,) in self.each([self.local_count]))
        for _ in range(self.local_rank):
            self.wait()
        yield
        for _ in range(self.local_rank, turns):
            self.wait()

    @torch.no_grad()
    def share_weights(self, parameters: Iterable[nn.Parameter]) -> None:
        """Give whole `parameters` the first process's values, bit for bit."""
        if self.count > 1 and not self.sharded:
            for parameter in parameters:
                distributed.broadcast(parameter, 0)

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Sum the gradients of whole `parameters` over the processes (sharded ones are summed in the backward pass).

        After the backward passes and not in them, so that gradients that come from elsewhere (adapters, new rows,
        losses of a step) are treated alike, and each is sent once a step, however many micro batches there are. A
        gradient that only other processes have begins as 0; one that none has stays away.
        """
        if self.count == 1 or self.sharded:
            return
        every = list(parameters)
        present = self.sum(torch.tensor([float(parameter.grad is not None) for parameter in every]))
        used = [parameter for parameter, count in zip(every, present.tolist(), strict=True) if count]
        for parameter in used:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        _sum_in_buckets([parameter.grad for parameter in used if parameter.grad is not None])


ALONE = Ranks()


@contextmanager
def joined(device: torch.device, sharded: bool) -> Iterator[Ranks]:
    """The processes that this one was started with, ready to talk to each other; `ALONE` where there are none.

    Args:
        device: where this process computes: NCCL carries what is on a GPU, gloo the rest.
        sharded: see `Ranks`.
    """
    ranks = ranks_of_environment(sharded)
    if ranks.count == 1:
        yield ALONE
        return
    if not ranks.first:
        logging.getLogger().setLevel(logging.ERROR)  # it would say what the first one says
    distributed.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
    log.info("%d processes, %s", ranks.count, "sharded" if sharded else "each with the whole model")
    ranks = replace(ranks, patient=distributed.new_group(backend="gloo", timeout=PATIENCE))
    yield ranks
    ranks.wait()
    distributed.destroy_process_group()  # not after an error: whoever started the processes ends them


def ranks_of_environment(sharded: bool = False) -> Ranks:
    """What the launcher wrote into the environment, in the names of torchrun.

    Raises:
        InputError: it is not complete.
    """
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1:
        return ALONE
    try:
        rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    except KeyError as error:
        raise InputError(
            f"WORLD_SIZE is {count}, but {error.args[0]} is not set: start the processes with torchrun or `accelerate "
            "launch`, or unset WORLD_SIZE"
        ) from error
    return Ranks(rank, count, local, int(os.environ.get("LOCAL_WORLD_SIZE", count)), sharded)


def _padding(rows: int, like: Batch) -> Batch:
    shape = (rows, like.tokens.shape[1])
    positions = np.broadcast_to(np.arange(shape[1]), shape)
    return Batch(np.zeros(shape, np.int64), np.full(shape, PADDING, np.int64), positions)


def _sum_in_buckets(gradients: list[Tensor]) -> None:
    """Sum over the processes, in place: large ones as they are, small ones put together into buckets."""
    large = [gradient for gradient in gradients if gradient.numel() >= BUCKET_NUMBERS and gradient.is_contiguous()]
    whole = {id(gradient) for gradient in large}
    works = [distributed.all_reduce(gradient, async_op=True) for gradient in large]
    for bucket in _buckets([gradient for gradient in gradients if id(gradient) not in whole]):
        flat = torch.cat([gradient.reshape(-1) for gradient in bucket])
        distributed.all_reduce(flat)
        for gradient, values in zip(bucket, torch.split(flat, [part.numel() for part in bucket]), strict=True):
            gradient.copy_(values.view_as(gradient))
    for work in works:
        work.wait()


def _buckets(gradients: list[Tensor]) -> Iterator[list[Tensor]]:
    """The gradients in their order, some `BUCKET_NUMBERS` numbers at a time."""
    bucket: list[Tensor] = []
    for gradient in gradients:
        if bucket and sum(part.numel() for part in bucket) + gradient.numel() > BUCKET_NUMBERS:
            yield bucket
            bucket = []
        bucket.append(gradient)
    if bucket:
        yield bucket
