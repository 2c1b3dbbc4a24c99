"""What every optimizer step did, kept in memory, in checkpoints and as losses.parquet."""

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
    ]
)
COLUMNS = ("loss", "learning_rate", "gradient_norm")


class History:
    """Loss (nats a predicted token), learning rate and gradient norm (before clipping) of each step so far."""

    def __init__(self, rows: npt.NDArray[np.float64] | None = None) -> None:
        """Start with `rows` ([steps, 3] float64, columns as in `COLUMNS`), or empty."""
        self._rows: list[tuple[float, float, float]] = [] if rows is None else [tuple(row) for row in rows.tolist()]

    def append(self, loss: float, learning_rate: float, gradient_norm: float) -> None:
        """Add the next step."""
        self._rows.append((loss, learning_rate, gradient_norm))

    def __len__(self) -> int:
        return len(self._rows)

    def rows(self) -> npt.NDArray[np.float64]:
        """[steps, 3] float64, columns as in `COLUMNS`."""
        return np.array(self._rows, dtype=np.float64).reshape(len(self._rows), len(COLUMNS))

    def tensor(self) -> torch.Tensor:
        """`rows` as a tensor, for a checkpoint."""
        return torch.from_numpy(self.rows())

    def table(self, tokens_per_step: int) -> pa.Table:
        """One row a step, steps counted from 1; `tokens`: tokens seen up to and including the step."""
        rows, steps = self.rows(), np.arange(1, len(self._rows) + 1, dtype=np.int64)
        columns = [steps, steps * tokens_per_step, *(np.ascontiguousarray(column) for column in rows.T)]
        return pa.table([pa.array(column) for column in columns], schema=SCHEMA)

    def final_loss(self) -> float:
        """The last step's loss."""
        return self._rows[-1][0]

    def mean_of_last_tenth(self) -> float:
        """Mean loss of the last 10 % of the steps, at least one."""
        losses = self.rows()[:, 0]
        return float(losses[-max(1, len(losses) // 10) :].mean())
