"""Rows of tokens as a training step takes them, each token with its document and its position in it."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

PADDING = -1


@dataclass(frozen=True)
class Batch:
    """Rows of tokens. A document's tokens in a row stand together; after the last document there may be padding.

    Attributes:
        tokens: [rows, length] int64 token ids; 0 where there is padding.
        documents: [rows, length] int64, the number of the token's document in its text; `PADDING` where there is none.
        positions: [rows, length] int64, 0 at the first token of every document's part in the row and of the padding.
    """

    tokens: npt.NDArray[np.int64]
    documents: npt.NDArray[np.int64]
    positions: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, rows: slice) -> "Batch":
        return Batch(self.tokens[rows], self.documents[rows], self.positions[rows])

    def split(self, size: int) -> Iterator["Batch"]:
        """The batch in parts of at most `size` rows."""
        for start in range(0, len(self), size):
            yield self[start : start + size]

    @property
    def filled(self) -> int:
        """How many tokens are not padding."""
        return int(np.count_nonzero(self.documents != PADDING))

    @property
    def is_plain(self) -> bool:
        """Whether every row is a single document from its first token to its last."""
        return bool((self.positions[:, -1] == self.positions.shape[1] - 1).all())


def plain_batch(sequences: npt.NDArray[np.int32], rows: npt.NDArray[np.int64]) -> Batch:
    """The rows `rows` of `sequences` ([sequences, length] int32), each taken as one document of the row's number."""
    tokens = sequences[rows].astype(np.int64)
    documents = np.broadcast_to(rows[:, None], tokens.shape)
    return Batch(tokens, documents, np.broadcast_to(np.arange(tokens.shape[1]), tokens.shape))


def concatenate(batches: list[Batch], order: npt.NDArray[np.int64]) -> Batch:
    """The rows of `batches` one after another, then in `order` ([rows] int64: which of them comes first, and so on)."""
    return Batch(
        np.concatenate([batch.tokens for batch in batches])[order],
        np.concatenate([batch.documents for batch in batches])[order],
        np.concatenate([batch.positions for batch in batches])[order],
    )
