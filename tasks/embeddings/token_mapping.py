"""A token mapping: each new token as a weighted mean of old tokens, a sparse matrix whose rows sum to 1."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tasks.embeddings.sparse_rows import SparseRows

if TYPE_CHECKING:
    import torch

_ROW_SUM_TOLERANCE = 1e-6
UNKNOWN_ORIGIN = "unknown"
MERGED_ORIGIN = "merged"


@dataclass(frozen=True)
class TokenMapping:
    """W, [target_size, source_size], in compressed sparse rows; the new table is W times the old one.

    A row without entries is *uncovered*: its token gets no mean, and who applies the mapping draws the row.

    Attributes:
        indptr: int64 [target_size + 1]: row t holds the entries indptr[t] to indptr[t + 1].
        source_ids: int32 [entries], ascending in each row.
        weights: float64 [entries], greater than 0; each covered row sums to 1.
        source_size: tokens of the source vocabulary.
        origin: uint8 [target_size]: why the row is as it is, as a position in `origin_names`.
        origin_names: the names of the origins.
    """

    indptr: NDArray[np.int64]
    source_ids: NDArray[np.int32]
    weights: NDArray[np.float64]
    source_size: int
    origin: NDArray[np.uint8]
    origin_names: tuple[str, ...]

    def __post_init__(self) -> None:
        rows = self.rows
        rows.check(self.source_size)
        if np.any(self.weights <= 0):
            raise ValueError(f"weights must be greater than 0, the least is {self.weights.min()}")
        sums = rows.sums()[rows.counts() > 0]
        if len(sums) and (worst := float(np.abs(sums - 1).max())) > _ROW_SUM_TOLERANCE:
            raise ValueError(f"rows must sum to 1, one is {worst:.3g} off; use TokenMapping.from_coo")
        if self.origin.shape != (self.target_size,):
            raise ValueError(f"origin has shape {self.origin.shape}, expected ({self.target_size},)")
        if len(self.origin) and int(self.origin.max()) >= len(self.origin_names):
            raise ValueError(f"origin {int(self.origin.max())} has no name; there are {len(self.origin_names)} names")

    @classmethod
    def from_rows(
        cls, rows: SparseRows, source_size: int, origin: NDArray[np.uint8], origin_names: Sequence[str]
    ) -> "TokenMapping":
        """The mapping whose rows are `rows` divided by their sums.

        Raises:
            ValueError: a source id out of range, a weight that is negative or not finite.
        """
        rows.check(source_size)
        if np.any(rows.weights < 0):
            raise ValueError(f"weights must not be negative, the least is {rows.weights.min()}")
        scaled = rows.positive().normalised()
        return cls(scaled.indptr, scaled.ids, scaled.weights, source_size, origin, tuple(origin_names))

    @classmethod
    def from_coo(
        cls,
        target_ids: NDArray[np.integer[Any]],
        source_ids: NDArray[np.integer[Any]],
        weights: NDArray[np.floating[Any]],
        shape: tuple[int, int],
        origin: NDArray[np.uint8] | None = None,
        origin_names: Sequence[str] = (UNKNOWN_ORIGIN,),
    ) -> "TokenMapping":
        """The mapping of (target, source, weight) triples in any order; weights of equal pairs are added.

        Args:
            target_ids: integers [entries].
            source_ids: integers [entries].
            weights: floats [entries], not negative; a row is divided by its sum, entries of 0 are dropped.
            shape: (target_size, source_size).
            origin: uint8 [target_size]; None: all 0.
            origin_names: names of the origins.

        Raises:
            ValueError: an id out of range, a weight that is negative or not finite, or arrays of different lengths.
        """
        rows = SparseRows.from_coo(target_ids, source_ids, weights, shape[0])
        codes = np.zeros(shape[0], dtype=np.uint8) if origin is None else origin
        return cls.from_rows(rows, shape[1], codes, origin_names)

    @cached_property
    def rows(self) -> SparseRows:
        """The rows without sizes and origins."""
        return SparseRows(self.indptr, self.source_ids, self.weights)

    @property
    def target_size(self) -> int:
        """Tokens of the target vocabulary."""
        return len(self.indptr) - 1

    @property
    def shape(self) -> tuple[int, int]:
        """(target_size, source_size)."""
        return self.target_size, self.source_size

    def normalised(self) -> "TokenMapping":
        """The same mapping, each row divided by its sum once more (after arithmetic on the weights)."""
        return TokenMapping.from_rows(self.rows, self.source_size, self.origin, self.origin_names)

    def covered(self) -> NDArray[np.bool_]:
        """Which rows have entries: bool [target_size]."""
        return self.rows.counts() > 0

    def entropy(self) -> NDArray[np.float64]:
        """Entropy of each row in nats, 0 for uncovered rows: float64 [target_size]."""
        terms = -self.weights * np.log(self.weights)
        return np.abs(np.bincount(self.rows.row_of_entry(), weights=terms, minlength=self.target_size))

    def origins(self) -> list[str]:
        """The origin's name of each row."""
        return [self.origin_names[code] for code in self.origin.tolist()]

    def apply(self, table: "torch.Tensor") -> "torch.Tensor":
        """W times `table`: the new rows, in the table's number format, computed in float32; uncovered rows are 0.

        Args:
            table: [rows, h] or [rows], at least `source_size` rows unless no weight is on the missing ones.

        Returns:
            [target_size, h] or [target_size]. A row with one source is a copy, bit for bit.

        Raises:
            ValueError: a weight is on a row that `table` does not have.
        """
        from tasks.embeddings.weighted_rows import weighted_rows

        return weighted_rows(self.rows, table)

    def select(self, target_ids: NDArray[np.integer[Any]]) -> "TokenMapping":
        """The mapping whose row n is this one's row `target_ids[n]`."""
        rows = self.rows.take(target_ids)
        return TokenMapping(
            rows.indptr, rows.ids, rows.weights, self.source_size, self.origin[target_ids], self.origin_names
        )


def merge(mappings: Sequence[TokenMapping], weights: Sequence[float]) -> TokenMapping:
    """The weighted mean of mappings, row by row over those that cover the row (trans-tokenization, 2 source languages).

    A row keeps the origin that its covering mappings agree on, else it is "merged".

    Args:
        mappings: at least one, all of one shape.
        weights: weight of each mapping, greater than 0.

    Raises:
        ValueError: no mapping, different shapes, or a weight that is not greater than 0.
    """
    if not mappings or len({mapping.shape for mapping in mappings}) != 1:
        raise ValueError(f"mappings of one shape are needed, got {[mapping.shape for mapping in mappings]}")
    if len(weights) != len(mappings) or min(weights) <= 0:
        raise ValueError(f"one weight greater than 0 for each of {len(mappings)} mappings is needed, got {weights}")
    target_size, source_size = mappings[0].shape
    rows = SparseRows.from_coo(
        np.concatenate([mapping.rows.row_of_entry() for mapping in mappings]),
        np.concatenate([mapping.source_ids for mapping in mappings]),
        np.concatenate([weight * mapping.weights for mapping, weight in zip(mappings, weights, strict=True)]),
        target_size,
    )
    names = tuple(sorted({name for mapping in mappings for name in mapping.origin_names} | {MERGED_ORIGIN}))
    position = {name: code for code, name in enumerate(names)}
    covered_by_any = np.any([mapping.covered() for mapping in mappings], axis=0)
    origin = np.full(target_size, 255, dtype=np.uint8)
    for mapping in mappings:
        own = np.array([position[name] for name in mapping.origin_names], dtype=np.uint8)[mapping.origin]
        counts = mapping.covered() | ~covered_by_any
        origin = np.where(counts & (origin == 255), own, origin)
        origin = np.where(counts & (origin != own), np.uint8(position[MERGED_ORIGIN]), origin)
    return TokenMapping.from_rows(rows, source_size, origin.astype(np.uint8), names)
