"""What initialisers share: special and shared tokens are copied, the rest is theirs, what is left is filled or drawn.

The order in which a row finds its source: special token one to one, the same text in both vocabularies, the
initialiser's own rows, and, where it fills what is left, the mean of the source tokenizer's pieces, then the source's
unknown token.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.embeddings.canonical import Vocabulary
from tasks.embeddings.matching import NONE, identical_tokens, special_tokens
from tasks.embeddings.registry import Ingredients
from tasks.embeddings.sparse_rows import SparseRows
from tasks.embeddings.token_mapping import TokenMapping

SPECIAL, SHARED, DECOMPOSITION, UNKNOWN = "special", "shared", "fallback-decomposition", "fallback-unknown"
RANDOM = "random"


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

    def without_shared(self, rows: NDArray[np.bool_] | None = None) -> "CopiedRows":
        """The copies but for the shared tokens at which `rows` is true (None: all of them)."""
        dropped = ~self.special if rows is None else rows & ~self.special
        return CopiedRows(np.where(dropped, NONE, self.source_ids), self.special)


@dataclass(frozen=True)
class OwnRows:
    """Rows that an initialiser makes.

    Attributes:
        origin: name of their origin.
        rows: int64 [n]: target ids.
        weights: n rows over source tokens, rows without entries are left to others; None: they are given as numbers.
    """

    origin: str
    rows: NDArray[np.int64]
    weights: SparseRows | None


def copied_rows(target: Vocabulary, source: Vocabulary, table_rows: int | None = None) -> CopiedRows:
    """Which target tokens are copies: special tokens one to one, others of the same text.

    Args:
        target: the new vocabulary.
        source: the old vocabulary.
        table_rows: rows of the source tables; tokens beyond them (added to the tokenizer alone) have nothing to copy.
    """
    special = special_tokens(target, source)
    ids = np.where(special != NONE, special, identical_tokens(target, source))
    if table_rows is not None:
        ids = np.where(ids < table_rows, ids, NONE)
    return CopiedRows(ids, (special != NONE) & (ids != NONE))


def pieces_of(given: Ingredients, rows: NDArray[np.int64]) -> SparseRows:
    """The mean of the source tokenizer's pieces of the target tokens `rows`; empty rows for those without pieces."""
    keys = given.target.keys
    positions, pieces = given.pieces.decompose([keys[i] for i in rows.tolist()])
    return SparseRows.from_coo(positions, pieces, np.ones(len(pieces)), len(rows)).normalised()


def completed(given: Ingredients, copied: CopiedRows, own: Sequence[OwnRows]) -> TokenMapping:
    """The mapping of copied rows, the initialiser's own rows, and fallbacks for all others.

    Args:
        given: vocabularies and the source tokenizer's pieces.
        copied: the copied rows.
        own: the initialiser's rows; see `assembled`.
    """
    target, source = given.target, given.source
    left = copied.source_ids == NONE
    for part in own:
        left[part.rows if part.weights is None else part.rows[part.weights.counts() > 0]] = False
    spelled = np.flatnonzero(left & ~target.special)
    fallbacks = [OwnRows(DECOMPOSITION, spelled, pieces_of(given, spelled))]
    if "unk" in source.roles:
        rows = np.flatnonzero(left)
        unknown = np.full(len(rows), source.roles["unk"])
        each = np.arange(len(rows))
        fallbacks.append(OwnRows(UNKNOWN, rows, SparseRows.from_coo(each, unknown, np.ones(len(rows)), len(rows))))
    return assembled(copied, [*own, *fallbacks], len(source), RANDOM)


def assembled(copied: CopiedRows, own: Sequence[OwnRows], source_size: int, left: str) -> TokenMapping:
    """The mapping of copied rows and an initialiser's own rows; all others stay uncovered.

    Args:
        copied: the copied rows.
        own: the initialiser's rows; a row that is a copy, or that an earlier part has, is passed over.
        source_size: tokens of the source vocabulary.
        left: name of the origin of the rows that are left.
    """
    size = len(copied.source_ids)
    names = list(dict.fromkeys([left, SPECIAL, SHARED, *(part.origin for part in own)]))
    origin = np.zeros(size, dtype=np.uint8)
    origin[copied.rows] = names.index(SHARED)
    origin[copied.special] = names.index(SPECIAL)
    done = copied.source_ids != NONE
    rows, ids, weights = [copied.rows], [copied.source_ids[copied.rows]], [np.ones(len(copied.rows))]
    for part in own:
        new = ~done[part.rows]
        if part.weights is not None:
            new &= part.weights.counts() > 0
            chosen = part.weights.take(np.flatnonzero(new))
            rows.append(part.rows[new][chosen.row_of_entry()])
            ids.append(chosen.ids.astype(np.int64))
            weights.append(chosen.weights)
        done[part.rows[new]] = True
        origin[part.rows[new]] = names.index(part.origin)
    entries = np.concatenate(rows), np.concatenate(ids), np.concatenate(weights)
    return TokenMapping.from_coo(*entries, (size, source_size), origin, names)
