"""The tokens of a helper model of the target language, beside those of source and target."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.contract import InputError
from tasks.embeddings.copied_rows import CopiedRows
from tasks.embeddings.matching import NONE, identical_tokens, special_tokens
from tasks.embeddings.registry import Helper, Ingredients, Tables

_Table = NDArray[np.float32]


@dataclass(frozen=True)
class HelperSides:
    """The tables of the source and the helper model."""

    source: Tables
    helper: Helper

    def pairs(self) -> Iterator[tuple[_Table, _Table, _Table]]:
        """(helper, helper, source) tables of the input embeddings and, where the source has its own, of the LM head.

        A helper whose LM head is tied gives its input embeddings for both.
        """
        own = self.helper.tables
        yield own.input, own.input, self.source.input
        if self.source.head is not None:
            head = own.input if own.head is None else own.head
            yield head, head, self.source.head


@dataclass(frozen=True)
class HelperRows:
    """Which rows of the three models belong together.

    Attributes:
        new: int64 [R]: target ids of the tokens that are no copies and that the helper has, ascending.
        new_ids: int64 [R]: their helper ids.
        anchor_ids: int64 [S]: helper ids of the copied tokens that the helper has.
        anchor_source: int64 [S]: their source ids.
    """

    new: NDArray[np.int64]
    new_ids: NDArray[np.int64]
    anchor_ids: NDArray[np.int64]
    anchor_source: NDArray[np.int64]


def helper_sides(given: Ingredients, method: str) -> HelperSides:
    """Both models' tables, loaded.

    Raises:
        ValueError: one of them was not given.
    """
    if given.source_tables is None or given.helper is None:
        raise ValueError(f"{method} needs the source tables and the helper")
    return HelperSides(given.source_tables(), given.helper())


def helper_rows(given: Ingredients, copied: CopiedRows, sides: HelperSides, method: str) -> HelperRows:
    """The helper's rows of new and of copied tokens, found by text and special role as between any two vocabularies.

    Raises:
        InputError: no copied token but special ones is in the helper, so there is nothing to compare with.
    """
    vocabulary = sides.helper.vocabulary
    special = special_tokens(given.target, vocabulary)
    ids = np.where(special != NONE, special, identical_tokens(given.target, vocabulary))
    ids = np.where(ids < len(sides.helper.tables.input), ids, NONE)
    anchors = copied.rows[ids[copied.rows] != NONE]
    new = copied.rest[ids[copied.rest] != NONE]
    if copied.special[anchors].all():
        raise InputError(
            f"mapping: {method!r} compares with tokens that source, target and helper model share, and beside special "
            f"tokens there is none (source and target share {int((~copied.special[copied.rows]).sum())}); take 'mean', "
            "or another helper"
        )
    return HelperRows(new, ids[new], ids[anchors], copied.source_ids[anchors])
