"""Curves for TensorBoard, written while a model is trained."""

import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from tasks.contract import InputError

FLUSH_SECONDS = 10


VARIABLE = "LANGADAPT_TENSORBOARD"


def curves_folder(work: Path, phase: str) -> Path | None:
    """Where the curves of a training go: in the folder that `LANGADAPT_TENSORBOARD` names, one for each training.

    Args:
        work: working folder of the stage, whose name is the stage's key.
        phase: name of the phase.
    """
    folder = os.environ.get(VARIABLE)
    return Path(folder) / f"{phase}-{work.name[:12]}" if folder else None


class CurveWriter:
    """Writes figures as TensorBoard curves; without a folder, it drops them. A context manager.

    Events hold times and the host's name, so `folder` is never an artifact's: it is the person's own.
    """

    def __init__(self, folder: Path | None = None, first_step: int = 0) -> None:
        """Start.

        Args:
            folder: where the events are written; made if need be. TensorBoard shows it as one run. None: nowhere.
            first_step: steps done before; what an interrupted training wrote after them is hidden.

        Raises:
            InputError: TensorBoard is not installed.
        """
        self._writer: Any = None if folder is None else _summary_writer(folder, first_step)

    def add(self, step: int, figures: Mapping[str, float]) -> None:
        """Add a point to each figure's curve, after `step` steps (counted from 1; 0 is before the first)."""
        if self._writer is not None:
            for name, value in figures.items():
                self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Write what is left."""
        if self._writer is not None:
            self._writer.close()

    def __enter__(self) -> "CurveWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _summary_writer(folder: Path, first_step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise InputError(
            f"TensorBoard curves are asked for in {folder}, but TensorBoard is not installed: "
            f"pip install 'langadapt[tensorboard]', or unset {VARIABLE}"
        ) from error
    # What is purged are steps from purge_step on; a training that begins anew hides all of an earlier one.
    return SummaryWriter(str(folder), purge_step=first_step + 1 if first_step else 0, flush_secs=FLUSH_SECONDS)
