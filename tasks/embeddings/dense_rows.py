"""New rows given as numbers, for initialisers whose rows are no weighted means of old rows."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.embeddings.token_mapping import TokenMapping

_ROWS = 4096


@dataclass(frozen=True)
class DenseRows:
    """A token mapping, and rows that take the place of some of its rows.

    Attributes:
        mapping: where every row comes from; rows in `rows` are without entries in it.
        rows: int64 [R], target ids, ascending.
        input: float32 [R, h], their input embeddings.
        head: float32 [R, h], their rows of the LM head; None where the source model's is tied.
    """

    mapping: TokenMapping
    rows: NDArray[np.int64]
    input: NDArray[np.float32]
    head: NDArray[np.float32] | None

    def __post_init__(self) -> None:
        if self.input.shape[:1] != self.rows.shape or (self.head is not None and self.head.shape != self.input.shape):
            head = None if self.head is None else self.head.shape
            raise ValueError(f"{len(self.rows)} rows need tables as long, got input {self.input.shape}, head {head}")
        inside = not len(self.rows) or 0 <= self.rows[0] <= self.rows[-1] < self.mapping.target_size
        if np.any(np.diff(self.rows) <= 0) or not inside:
            raise ValueError("rows must be ascending target ids")
        if np.any(self.mapping.covered()[self.rows]):
            raise ValueError("a dense row is also covered by the mapping")
        for name, table in (("input", self.input), ("head", self.head)):
            if table is None:
                continue
            for start in range(0, len(table), _ROWS):
                finite = np.isfinite(table[start : start + _ROWS]).all(axis=1)
                if not finite.all():
                    token = int(self.rows[start + int(np.flatnonzero(~finite)[0])])
                    raise ValueError(f"dense rows must be finite; the {name} row of target token {token} is not")
