"""The trained weights at the best validation score, on disk."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from torch import nn

from tasks.training.checkpoint import CheckpointFolder
from tasks.training.ranks import ALONE, Ranks


class BestWeights:
    """Weights by step; kept are the newest, and those that a checkpoint would go on from.

    Args:
        folder: where they are kept.
        fingerprint: what the training is.
        ranks: the processes; all make the same calls.
    """

    def __init__(self, folder: Path, fingerprint: str, ranks: Ranks = ALONE) -> None:
        self._states = CheckpointFolder(folder, fingerprint, None, ranks)
        self._ranks = ranks

    def save(self, step: int, parameters: Mapping[str, nn.Parameter], checkpoints: Iterable[int]) -> None:
        """Keep the weights after `step` steps, the best so far; `checkpoints` are the steps one could go on from."""
        self._states.save(step, parameters)
        self.prune(step, checkpoints)

    def prune(self, step: int, checkpoints: Iterable[int]) -> None:
        """Remove what neither `step` nor a checkpoint needs: a checkpoint needs the newest not after it."""
        if not self._ranks.first:
            return
        steps = self._states.steps()
        needed = {max((own for own in steps if own <= other), default=step) for other in checkpoints} | {step}
        for own in steps:
            if own not in needed:
                self._states.remove(own)

    def restore(self, step: int, parameters: Mapping[str, nn.Parameter]) -> None:
        """Give `parameters` the weights of `step`.

        Raises:
            ValueError: they are not there, or damaged.
        """
        state = self._states.load(step)
        for name, parameter in parameters.items():
            state.copy_to(parameter, name)
