"""Checkpoints: tensors in safetensors and a small JSON file, in a folder that appears whole; no pickle anywhere.

Each process that trains writes one file of tensors. The folder is published when all of them are there.
"""

import json
import logging
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from storage.keys import file_digest
from tasks.training.durable import empty_folder, publish_folder
from tasks.training.ranks import ALONE, Ranks
from tasks.training.sharded_tensor import is_sharded, local, local_rows

FORMAT = 3
PREFIX = "step-"
UNFINISHED = "unfinished-"
DESCRIPTION = "state.json"
OWN = "own/"

UNUSABLE = (OSError, ValueError, KeyError, SafetensorError)

log = logging.getLogger(__name__)


class Checkpoint:
    """A state on disk, read tensor by tensor, by whatever number of processes.

    The rows of a sharded tensor are in the files of the processes that had them, one file after another; an ordinary
    tensor is in the first file.

    Args:
        step: optimizer steps before it.
        files: the files of tensors, in the order of the processes that wrote them.

    Attributes:
        step: as given.
        processes: how many processes wrote it.
    """

    def __init__(self, step: int, files: Sequence[Path]) -> None:
        self.step, self.processes = step, len(files)
        self._files: list[Any] = [safe_open(file, framework="pt") for file in files]
        self._names = [frozenset(file.keys()) for file in self._files]

    def __contains__(self, name: str) -> bool:
        return name in self._names[0]

    def tensor(self, name: str) -> torch.Tensor:
        """The ordinary tensor of that name, on the CPU."""
        found: torch.Tensor = self._files[0].get_tensor(name)
        return found

    def own(self, rank: int) -> dict[str, torch.Tensor]:
        """What the process of that number wrote for itself."""
        names = sorted(name for name in self._names[rank] if name.startswith(OWN))
        return {name.removeprefix(OWN): self._files[rank].get_tensor(name) for name in names}

    @torch.no_grad()
    def copy_to(self, target: torch.Tensor, name: str) -> None:
        """Give `target`, or the rows of it that this process has, the values of `name`.

        Raises:
            ValueError: it has another shape.
        """
        if target.ndim == 0:
            target.copy_(self.tensor(name))
            return
        wanted, own, begin = local_rows(target), local(target), 0
        for file, names in zip(self._files, self._names, strict=True):
            if name not in names:
                continue
            part = file.get_slice(name)
            rows, *width = part.get_shape()
            if width != list(target.shape[1:]):
                raise ValueError(f"{name} has rows of {width} numbers, not {list(target.shape[1:])}")
            first, last = max(wanted.start, begin), min(wanted.stop, begin + rows)
            if first < last:
                own[first - wanted.start : last - wanted.start].copy_(part[first - begin : last - begin])
            begin += rows
        if begin != len(target):
            raise ValueError(f"{name} has {begin} rows, not {len(target)}")


class CheckpointFolder:
    """The checkpoints of one training, newest `keep` of them. All processes make the same calls in the same order.

    Args:
        folder: where they are kept; the same for all processes.
        fingerprint: what the training is; a checkpoint with another fingerprint is not taken.
        keep: how many are kept; None: all.
        ranks: the processes.
    """

    def __init__(self, folder: Path, fingerprint: str, keep: int | None = 2, ranks: Ranks = ALONE) -> None:
        self._folder, self._fingerprint, self._keep, self._ranks = folder, fingerprint, keep, ranks

    def save(
        self, step: int, tensors: Mapping[str, torch.Tensor], own: Mapping[str, torch.Tensor] | None = None
    ) -> None:
        """Write the state after `step` steps, then remove all but the newest checkpoints.

        Args:
            step: optimizer steps.
            tensors: the state; of sharded tensors each process writes its rows, of others the first writes all.
            own: what each process has for itself.
        """
        unfinished = self._folder / f"{UNFINISHED}{step:09d}"  # a name of its own: other machines may remember the last
        if self._ranks.first:
            for left in self._folder.glob(f"{UNFINISHED}*"):
                shutil.rmtree(left)
            empty_folder(unfinished)
        self._ranks.wait()
        file = unfinished / _name(self._ranks.rank, self._ranks.count)
        written = {name: tensor for name, tensor in tensors.items() if self._ranks.first or is_sharded(tensor)}
        written |= {f"{OWN}{name}": tensor for name, tensor in (own or {}).items()}
        save_file({name: local(tensor.detach()).cpu().contiguous() for name, tensor in written.items()}, file)
        digests = self._ranks.each(list(bytes.fromhex(file_digest(file))))
        if self._ranks.first:
            self._publish(unfinished, step, [bytes(digest).hex() for digest in digests])
        self._ranks.wait()

    def steps(self) -> list[int]:
        """The steps whose states are there, ascending."""
        return sorted(int(folder.name.removeprefix(PREFIX)) for folder in self._folder.glob(f"{PREFIX}*"))

    def load(self, step: int) -> Checkpoint:
        """The state after `step` steps.

        Raises:
            ValueError: it is not there, damaged, or of another training.
        """
        try:
            return self._load(step)
        except UNUSABLE as error:
            raise ValueError(f"the state of step {step} in {self._folder.name} cannot be read: {error}") from error

    def remove(self, step: int) -> None:
        """Remove the state after `step` steps."""
        if self._ranks.first:
            shutil.rmtree(self._place(step))

    def latest(self) -> Checkpoint | None:
        """The newest checkpoint that every process finds whole, or None; others are logged and removed."""
        while (step := self._ranks.of_first(max(self.steps(), default=-1))) >= 0:
            checkpoint, fault = None, None
            try:
                checkpoint = self._load(step)
            except UNUSABLE as error:
                fault = error
            if not self._ranks.any(fault is not None):
                return checkpoint
            why = fault or "another process finds it damaged"
            log.warning("checkpoint %s cannot be used and is removed: %s", self._place(step).name, why)
            self.remove(step)
        return None

    def _publish(self, unfinished: Path, step: int, digests: list[str]) -> None:
        description = {"format": FORMAT, "step": step, "fingerprint": self._fingerprint, "sha256": digests}
        names = [_name(rank, len(digests)) for rank in range(len(digests))]
        missing = [name for name in names if not (unfinished / name).is_file()]
        if missing:
            raise OSError(f"{self._folder} is not the same for all processes: {missing[0]} has not come to it")
        (unfinished / DESCRIPTION).write_text(json.dumps(description, sort_keys=True), encoding="utf-8")
        publish_folder(unfinished, self._place(step))
        for old in self.steps()[: -self._keep] if self._keep is not None else []:
            shutil.rmtree(self._place(old))
        log.debug("state of step %d written to %s", step, self._folder.name)

    def _place(self, step: int) -> Path:
        return self._folder / f"{PREFIX}{step:09d}"

    def _load(self, step: int) -> Checkpoint:
        """The state of that step; each process checks its share of the files."""
        folder = self._place(step)
        description = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
        if description["format"] != FORMAT or description["fingerprint"] != self._fingerprint:
            raise ValueError("it belongs to a training with another configuration, model or text")
        digests = description["sha256"]
        files = [folder / _name(rank, len(digests)) for rank in range(len(digests))]
        for number in range(self._ranks.rank, len(files), self._ranks.count):
            if file_digest(files[number]) != digests[number]:
                raise ValueError(f"{files[number].name} is damaged (its SHA-256 differs)")
        return Checkpoint(int(description["step"]), files)


def _name(rank: int, count: int) -> str:
    return f"state-{rank:05d}-of-{count:05d}.safetensors"
