"""The outcome of one check of an initial model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Status = Literal["passed", "warning", "failed", "skipped"]
_SHOWN = 5
_KEPT = 1000


@dataclass(frozen=True)
class Check:
    """What a check found.

    Attributes:
        name: its name, "duplicate rows of the LM head".
        status: "failed" stops the run, "warning" is shown, "skipped" lacked what it needs.
        message: what was found, with values and thresholds; empty where nothing is to be said.
        figures: numbers that the same files give on every machine.
        measured: numbers that depend on the machine's arithmetic in their last digits; kept out of the files.
        rows: ids of the tokens that it is about.
    """

    name: str
    status: Status
    message: str = ""
    figures: dict[str, Any] = field(default_factory=dict)
    measured: dict[str, Any] = field(default_factory=dict)
    rows: Sequence[int] | NDArray[np.int64] = ()

    def as_json(self) -> dict[str, Any]:
        """What verification.json holds of it: at most 1,000 rows, and nothing that measured numbers are in."""
        known = {"name": self.name, "status": self.status, "figures": self.figures}
        if self.measured:
            return known
        return known | {"message": self.message, "rows": [int(row) for row in self.rows[:_KEPT]]}

    def told(self, token: Callable[[int], str]) -> str:
        """The message, and the first rows with their tokens."""
        text = self.message
        if len(self.rows):
            shown = ", ".join(f"{int(row)} {token(int(row))!r}" for row in self.rows[:_SHOWN])
            text += f" (rows {shown}{', ...' if len(self.rows) > _SHOWN else ''})"
        return text
