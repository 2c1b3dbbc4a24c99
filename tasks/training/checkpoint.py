"""Checkpoints: tensors in safetensors and a small JSON file, in a folder that appears whole; no pickle anywhere."""

import json
import logging
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from storage.keys import file_digest
from tasks.training.durable import empty_folder, publish_folder

FORMAT = 2
PREFIX = "step-"
TENSORS = "state.safetensors"
DESCRIPTION = "state.json"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Checkpoint:
    """The state after `step` optimizer steps: `tensors` by name, on the CPU."""

    step: int
    tensors: dict[str, torch.Tensor]


class CheckpointFolder:
    """The checkpoints of one training, newest `keep` of them.

    Args:
        folder: where they are kept.
        fingerprint: what the training is; a checkpoint with another fingerprint is not taken.
        keep: how many are kept; None: all.
    """

    def __init__(self, folder: Path, fingerprint: str, keep: int | None = 2) -> None:
        self._folder, self._fingerprint, self._keep = folder, fingerprint, keep

    def save(self, step: int, tensors: Mapping[str, torch.Tensor]) -> None:
        """Write the state after `step` steps, then remove all but the newest checkpoints."""
        unfinished = empty_folder(self._folder / "unfinished")
        on_cpu = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        save_file(on_cpu, unfinished / TENSORS)
        description = {
            "format": FORMAT,
            "step": step,
            "fingerprint": self._fingerprint,
            "sha256": file_digest(unfinished / TENSORS),
        }
        (unfinished / DESCRIPTION).write_text(json.dumps(description, sort_keys=True), encoding="utf-8")
        publish_folder(unfinished, self._place(step))
        for old in self._newest_first()[self._keep :] if self._keep is not None else []:
            shutil.rmtree(old)
        log.debug("state of step %d written to %s", step, self._folder.name)

    def steps(self) -> list[int]:
        """The steps whose states are there, ascending."""
        return sorted(int(folder.name.removeprefix(PREFIX)) for folder in self._newest_first())

    def load(self, step: int) -> Checkpoint:
        """The state after `step` steps.

        Raises:
            ValueError: it is not there, damaged, or of another training.
        """
        try:
            return self._load(self._place(step))
        except (OSError, KeyError, SafetensorError) as error:
            raise ValueError(f"the state of step {step} in {self._folder.name} cannot be read: {error}") from error

    def remove(self, step: int) -> None:
        """Remove the state after `step` steps."""
        shutil.rmtree(self._place(step))

    def latest(self) -> Checkpoint | None:
        """The newest checkpoint that is whole, or None; one that cannot be used is logged and removed."""
        for folder in self._newest_first():
            try:
                return self._load(folder)
            except (OSError, ValueError, KeyError, SafetensorError) as error:
                log.warning("checkpoint %s cannot be used and is removed: %s", folder.name, error)
                shutil.rmtree(folder)
        return None

    def _newest_first(self) -> list[Path]:
        return sorted(self._folder.glob(f"{PREFIX}*"), reverse=True)

    def _place(self, step: int) -> Path:
        return self._folder / f"{PREFIX}{step:09d}"

    def _load(self, folder: Path) -> Checkpoint:
        description = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
        if description["format"] != FORMAT or description["fingerprint"] != self._fingerprint:
            raise ValueError("it belongs to a training with another configuration, model or text")
        if file_digest(folder / TENSORS) != description["sha256"]:
            raise ValueError(f"{TENSORS} is damaged (its SHA-256 differs)")
        return Checkpoint(int(description["step"]), load_file(folder / TENSORS))
