"""What most initialisers share: special and shared tokens are copied, the rest is theirs, what they leave is filled.

The order in which a row finds its source: special token one to one, the same text in both vocabularies, the
initialiser's own rows, the mean of the source tokenizer's pieces, the source's unknown token, none.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.embeddings.matching import NONE, identical_tokens, special_tokens
from tasks.embeddings.registry import Ingredients
from tasks.embeddings.sparse_rows import SparseRows
from tasks.embeddings.token_mapping import TokenMapping

SPECIAL, SHARED, DECOMPOSITION, UNKNOWN = "special", "shared", "fallback-decomposition", "fallback-unknown"


@dataclass(frozen=True)
class CopiedRows:
    """The rows that are copies of old rows.

    Attributes:
        source_ids: int64 [target size]: the source token of each target token, -1 where it has none.
        special: bool [target size]: which of them are paired as special tokens.
    """

    source_ids: NDArray[np.int64]
    special: NDArray[np.bool_]

    @property
    def rows(self) -> NDArray[np.int64]:
        """Target ids with a source token, ascending."""
        return np.flatnonzero(self.source_ids != NONE)

    @property
    def rest(self) -> NDArray[np.int64]:
        """Target ids without one, ascending."""
        return np.flatnonzero(self.source_ids == NONE)


@dataclass(frozen=True)
class OwnRows:
    """Rows that an initialiser makes.

    Attributes:
        origin: name of their origin.
        rows: int64 [n]: target ids.
        weights: n rows over source tokens, rows without entries are left to the fallbacks; None: they are dense.
    """

    origin: str
    rows: NDArray[np.int64]
    weights: SparseRows | None


def copied_rows(given: Ingredients, table_rows: int | None = None) -> CopiedRows:
    """Which target tokens are copies: special tokens one to one, others of the same text.

    Args:
        given: the two vocabularies.
        table_rows: rows of the source tables; tokens beyond them (added to the tokenizer alone) have nothing to copy.
    """
    special = special_tokens(given.target, given.source)
    shared = identical_tokens(given.target, given.source)
    ids = np.where(special != NONE, special, shared)
    if table_rows is not None:
        ids = np.where(ids < table_rows, ids, NONE)
    return CopiedRows(ids, (special != NONE) & (ids != NONE))


def pieces_of(given: Ingredients, rows: NDArray[np.int64]) -> SparseRows:
    """The mean of the source tokenizer's pieces of the target tokens `rows`; empty rows for those without pieces."""
    keys = given.target.keys
    positions, pieces = given.pieces.decompose([keys[i] for i in rows.tolist()])
    return SparseRows.from_coo(positions, pieces, np.ones(len(pieces)), len(rows)).normalised()


def completed(given: Ingredients, copied: CopiedRows, own: Sequence[OwnRows], fill: bool = True) -> TokenMapping:
    """The mapping of copied rows, the initialiser's own rows and fallbacks.

    Args:
        given: vocabularies and the source tokenizer's pieces.
        copied: the copied rows.
        own: the initialiser's rows, none of them copied; a row given twice keeps the first.
        fill: whether other rows get a fallback; otherwise they stay uncovered.
    """
    target, source = given.target, given.source
    names = [UNKNOWN, SPECIAL, SHARED, *(part.origin for part in own), DECOMPOSITION]
    origin = np.zeros(len(target), dtype=np.uint8)
    origin[copied.rows] = 2
    origin[copied.special] = 1
    parts = [_Entries.copies(copied.rows, copied.source_ids)]
    for code, part in enumerate(own, start=3):
        new = origin[part.rows] == 0
        if part.weights is not None:
            new &= part.weights.counts() > 0
            parts.append(_Entries.of(part.rows[new], part.weights.take(np.flatnonzero(new))))
        origin[part.rows[new]] = code
    if fill:
        rest = np.flatnonzero((origin == 0) & ~target.special)
        pieces = pieces_of(given, rest)
        parts.append(_Entries.of(rest, pieces))
        origin[rest[pieces.counts() > 0]] = len(names) - 1
        if "unk" in source.roles:
            parts.append(_Entries.copies(np.flatnonzero(origin == 0), np.full(len(target), source.roles["unk"])))
    return TokenMapping.from_coo(
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.ids for part in parts]),
        np.concatenate([part.weights for part in parts]),
        (len(target), len(source)),
        origin,
        names,
    )


@dataclass(frozen=True)
class _Entries:
    rows: NDArray[np.int64]
    ids: NDArray[np.int64]
    weights: NDArray[np.float64]

    @classmethod
    def copies(cls, rows: NDArray[np.int64], source_ids: NDArray[np.int64]) -> "_Entries":
        return cls(rows, source_ids[rows], np.ones(len(rows)))

    @classmethod
    def of(cls, rows: NDArray[np.int64], weights: SparseRows) -> "_Entries":
        return cls(rows[weights.row_of_entry()], weights.ids.astype(np.int64), weights.weights)
