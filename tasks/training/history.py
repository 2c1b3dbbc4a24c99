"""What every optimizer step did, kept in memory, in checkpoints and as Parquet."""

from dataclasses import astuple, dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch

SCHEMA = pa.schema(
    [
        ("step", pa.int64()),
        ("tokens", pa.int64()),
        ("loss", pa.float64()),
        ("learning_rate", pa.float64()),
        ("gradient_norm", pa.float64()),
        ("objective", pa.float64()),
        ("predictions", pa.int64()),
        ("padding", pa.int64()),
    ]
)
SCORES = pa.schema([("step", pa.int64()), ("tokens", pa.int64()), ("bits_per_byte", pa.float64())])


@dataclass(frozen=True)
class StepFigures:
    """Figures of one step.

    Attributes:
        loss: mean loss of the LM head, nats a predicted token.
        learning_rate: the rate.
        gradient_norm: norm of the gradient before clipping.
        objective: what was minimised: the losses of all heads and what is added to them.
        tokens: tokens without padding.
        predictions: predictions of the LM head.
        padding: places without a token.
    """

    loss: float
    learning_rate: float
    gradient_norm: float
    objective: float
    tokens: float
    predictions: float
    padding: float


COLUMNS = tuple(field.name for field in fields(StepFigures))


class History:
    """The figures of each step so far."""

    def __init__(self, rows: npt.NDArray[np.float64] | None = None) -> None:
        """Start with `rows` ([steps, columns] float64, columns as in `COLUMNS`), or empty."""
        self._rows: list[tuple[float, ...]] = [] if rows is None else [tuple(row) for row in rows.tolist()]
        self.tokens = int(sum(row[COLUMNS.index("tokens")] for row in self._rows))
        self.padding = int(sum(row[COLUMNS.index("padding")] for row in self._rows))

    def append(self, figures: StepFigures) -> None:
        """Add the next step."""
        self._rows.append(astuple(figures))
        self.tokens += int(figures.tokens)
        self.padding += int(figures.padding)

    def __len__(self) -> int:
        return len(self._rows)

    def last(self) -> StepFigures:
        """The newest step's figures."""
        return StepFigures(*self._rows[-1])

    def rows(self) -> npt.NDArray[np.float64]:
        """[steps, columns] float64, columns as in `COLUMNS`."""
        return np.array(self._rows, dtype=np.float64).reshape(len(self._rows), len(COLUMNS))

    def column(self, name: str) -> npt.NDArray[np.float64]:
        """[steps] float64, one of `COLUMNS`."""
        return self.rows()[:, COLUMNS.index(name)]

    def tensor(self) -> torch.Tensor:
        """`rows` as a tensor, for a checkpoint."""
        return torch.from_numpy(self.rows())

    def table(self) -> pa.Table:
        """One row a step, steps counted from 1; `tokens`: tokens seen up to and including the step, no padding."""
        columns: dict[str, npt.NDArray[Any]] = {name: self.column(name) for name in COLUMNS}
        columns["step"] = np.arange(1, len(self) + 1)
        columns["tokens"] = np.cumsum(columns["tokens"])
        return pa.table([pa.array(columns[field.name]).cast(field.type) for field in SCHEMA], schema=SCHEMA)

    def final_loss(self) -> float:
        """The last step's loss."""
        return self.last().loss

    def first_loss(self) -> float:
        """The first step's loss: that of the model before any change."""
        return StepFigures(*self._rows[0]).loss

    def last_losses(self, count: int) -> list[float]:
        """The losses of the last steps, at most so many."""
        return [StepFigures(*row).loss for row in self._rows[-count:]]

    def mean_of_last_tenth(self) -> float:
        """Mean loss of the last 10 % of the steps, at least one."""
        return float(np.mean(self.last_losses(max(1, len(self) // 10))))


class Scores:
    """Bits per byte of the held-out text so far, and which was the best.

    Attributes:
        rows: (step, tokens seen, bits per byte) of each score.
    """

    def __init__(self, rows: npt.NDArray[np.float64] | None = None) -> None:
        """Start with `rows` ([scores, 3] float64), or empty."""
        self.rows: list[tuple[int, int, float]] = []
        for step, tokens, value in [] if rows is None else rows.tolist():
            self.rows.append((int(step), int(tokens), value))

    def append(self, step: int, tokens: int, bits_per_byte: float) -> bool:
        """Add a score; whether it is the best so far (the first of equals is)."""
        best = not self.rows or bits_per_byte < self.best()[2]
        self.rows.append((step, tokens, bits_per_byte))
        return best

    def best(self) -> tuple[int, int, float]:
        """The row of the lowest bits per byte, the first of equals."""
        return min(self.rows, key=lambda row: (row[2], row[0]))

    def since_best(self) -> int:
        """How many scores came after the best one."""
        return len(self.rows) - 1 - self.rows.index(self.best()) if self.rows else 0

    def tensor(self) -> torch.Tensor:
        """[scores, 3] float64, for a checkpoint."""
        return torch.tensor(self.rows, dtype=torch.float64).reshape(len(self.rows), 3)

    def table(self) -> pa.Table:
        """One row a score."""
        columns = list(zip(*self.rows, strict=True)) or [(), (), ()]
        return pa.table(
            [pa.array(column, field.type) for column, field in zip(columns, SCORES, strict=True)], schema=SCORES
        )
