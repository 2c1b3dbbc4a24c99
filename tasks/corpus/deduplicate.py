"""Exact deduplication of hashed rows, with every text in one split only."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tasks.corpus.hashes import SPLITS
from tasks.corpus.records import Integers, Mask

REPEATS_KEPT = 6
OVER_BUDGET = "over-budget"

_KEEP, _DUPLICATE, _OVER = 0, 1, 2 + len(SPLITS)
OUTCOMES = ("", "duplicate", *(f"duplicate-of-{split}" for split in SPLITS), OVER_BUDGET)


@dataclass(frozen=True)
class Decided:
    """What becomes of the rows of a partition.

    Attributes:
        order: int64 [n], the rows in ascending order of their hashes.
        outcome: int8 [n], for the rows in that order: index into `OUTCOMES`, 0 is kept.
    """

    order: Integers
    outcome: npt.NDArray[np.int8]


@dataclass
class BudgetLeft:
    """What is left of the budget of training text; None: no bound."""

    sentences: int | None
    bytes: int | None

    def fitting(self, sizes: Integers) -> Mask:
        """Which of the next training texts fit, bool [n]: all up to the first that does not; takes them off.

        Args:
            sizes: int64 [n], bytes of the texts in order.
        """
        total = np.cumsum(sizes)
        fits = np.ones(len(sizes), dtype=bool)
        if self.sentences is not None:
            fits &= np.arange(1, len(sizes) + 1) <= self.sentences
            self.sentences = max(0, self.sentences - len(sizes))
        if self.bytes is not None:
            fits &= total <= self.bytes
            # Texts that did not fit are taken off as well: after the first of them, none may fit.
            self.bytes -= int(total[-1]) if len(sizes) else 0
        return fits


def decide(rows: pa.Table, text_bytes: Integers, budget: BudgetLeft) -> Decided:
    """Which rows of a partition are kept.

    Rows with the same group hash are the same text (of pairs: the same target side). They go into one split: test, if
    any of them is in test, else validation, else train; those of another split are rejected. Of rows equal in full, the
    first in input order is kept. Training rows are kept in the order of their hashes until the budget is used up.

    Args:
        rows: group_high, group_low and, for pairs, pair_high, pair_low (uint64), split (uint8), in input order.
        text_bytes: int64 [n], bytes of the cleaned texts of every row.
        budget: what is left; changed.
    """
    keys = [rows.column(name).to_numpy() for name in key_names(rows.schema)]
    order = np.lexsort(keys[::-1])
    keys = [key[order] for key in keys]
    split = rows.column("split").to_numpy()[order]
    if len(order) == 0:
        return Decided(order, np.empty(0, dtype=np.int8))
    new_group = changes(keys[:2])
    group = np.cumsum(new_group) - 1
    winner = np.maximum.reduceat(split, np.flatnonzero(new_group))[group]
    outcome = np.full(len(order), _DUPLICATE, dtype=np.int8)
    loses = split < winner
    outcome[loses] = 2 + winner[loses].astype(np.int8)
    stays = np.flatnonzero(~loses)
    kept = stays[changes([key[stays] for key in keys])]
    outcome[kept] = _KEEP
    training = kept[split[kept] == SPLITS.index("train")]
    fits = budget.fitting(text_bytes[order[training]])
    outcome[training[~fits]] = _OVER
    return Decided(order, outcome)


def compact(rows: pa.Table) -> pa.Table:
    """`rows` with all but the first repetitions of a row merged, so that a text repeated endlessly fits in memory.

    Rows equal in hashes, split and corpus have one outcome, but for the first of them. So the first `REPEATS_KEPT` stay
    as they are (the kept one and the examples); the others become one row with the sum of `copies` and `size`.
    """
    keys = [rows.column(name).to_numpy() for name in (*key_names(rows.schema), "split", "corpus")]
    order = np.lexsort(keys[::-1])
    starts = np.flatnonzero(changes([key[order] for key in keys]))
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    if rank.max() <= REPEATS_KEPT:
        return rows
    pieces = np.flatnonzero(rank <= REPEATS_KEPT)
    sums = {name: np.add.reduceat(rows.column(name).to_numpy()[order], pieces) for name in ("copies", "size")}
    in_input_order = np.argsort(order[pieces], kind="stable")
    table = rows.take(pa.array(order[pieces][in_input_order]))
    for name, values in sums.items():
        table = table.set_column(table.schema.get_field_index(name), name, pa.array(values[in_input_order]))
    return table.combine_chunks()


def key_names(schema: pa.Schema) -> list[str]:
    """The columns that make two rows equal, the group's first."""
    return [name for name in ("group_high", "group_low", "pair_high", "pair_low") if name in schema.names]


def changes(keys: list[npt.NDArray[np.uint64]]) -> Mask:
    """Where sorted rows differ from the row before, bool [n]; the first row does."""
    different = np.ones(len(keys[0]), dtype=bool)
    different[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    return different
