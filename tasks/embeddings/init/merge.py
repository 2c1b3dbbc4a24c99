"""Merge (low-resource vocabulary expansion 2024, Algorithm 1): the hierarchical mean along the target's merge rules."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.contract import InputError
from tasks.embeddings.canonical import Vocabulary
from tasks.embeddings.copied_rows import CopiedRows, OwnRows, completed, copied_rows, pieces_of
from tasks.embeddings.registry import Ingredients, Initialiser
from tasks.embeddings.sparse_rows import SparseRows
from tasks.embeddings.token_mapping import TokenMapping


@dataclass(frozen=True)
class MergeRules:
    """The rules left + right -> result of a BPE tokenizer, as token ids: int64 [rules] each."""

    left: NDArray[np.int64]
    right: NDArray[np.int64]
    result: NDArray[np.int64]

    def select(self, kept: NDArray[np.bool_]) -> "MergeRules":
        """The rules at which `kept` is true."""
        return MergeRules(self.left[kept], self.right[kept], self.result[kept])


def build(given: Ingredients) -> TokenMapping:
    """Special and shared tokens copied; a new token is the mean over its merge rules of the mean of the two parts.

    A part that is new itself is taken by its own rules, so (("a", "b"), "c") weighs a and b 1/4 and c 1/2. Where
    Algorithm 1 stops (a part that is new and has no rules, such as a letter the source lacks), the part is the mean of
    the source tokenizer's pieces.

    Raises:
        InputError: the target tokenizer has no merge rules.
        ValueError: the tokenizers were not given.
    """
    if given.tokenizers is None:
        raise ValueError("merge needs the tokenizers")
    rules = merge_rules(given.tokenizers[0], given.target)
    if rules is None:
        raise InputError(
            "mapping: 'merge' needs merge rules, the target tokenizer is no BPE; take 'mean', or a BPE vocabulary"
        )
    copied = copied_rows(given.target, given.source)
    return completed(given, copied, merged_rows(given, copied, rules))


def merge_rules(tokenizer: Any, vocabulary: Vocabulary) -> MergeRules | None:
    """The merge rules of a fast tokenizer whose parts and result are tokens; None where it has none (no BPE)."""
    merges = json.loads(tokenizer.backend_tokenizer.to_str())["model"].get("merges")
    if not merges:
        return None
    pairs = [merge.split(" ", 1) if isinstance(merge, str) else merge for merge in merges]
    ids = {token: i for i, token in enumerate(vocabulary.tokens) if token}
    triples = [(ids.get(a, -1), ids.get(b, -1), ids.get(a + b, -1)) for a, b in pairs]
    left, right, result = np.array(triples, dtype=np.int64).T
    return MergeRules(left, right, result).select((left >= 0) & (right >= 0) & (result >= 0))


def merged_rows(given: Ingredients, copied: CopiedRows, rules: MergeRules) -> tuple[OwnRows, OwnRows]:
    """The new tokens' rows by merge rules, and by source pieces where there is no usable rule.

    Tokens are taken in the order of their length: both parts of a rule are shorter than its result, so they are known.
    """
    size = len(given.target)
    new = np.zeros(size, dtype=bool)
    new[copied.rest] = True
    new &= ~given.target.special
    rules = rules.select(new[rules.result])
    rows = np.flatnonzero(new)
    pieces = pieces_of(given, rows)
    known = SparseRows.from_coo(copied.rows, copied.source_ids[copied.rows], np.ones(len(copied.rows)), size)
    # A special token is copied but is no part of a text.
    usable_part = ~given.target.special
    by_rules = np.zeros(size, dtype=bool)
    lengths = np.array([len(token) for token in given.target.tokens])
    for length in np.unique(lengths[rows]).tolist():
        level = rules.select(lengths[rules.result] == length)
        has_row = (known.counts() > 0) & usable_part
        level = level.select(has_row[level.left] & has_row[level.right])
        by_rules[level.result] = True
        share = 0.5 / np.maximum(1, np.bincount(level.result, minlength=size))
        here = np.flatnonzero((lengths[rows] == length) & ~by_rules[rows])
        known = _grown(
            known,
            [
                (level.result, known.take(level.left), share[level.result]),
                (level.result, known.take(level.right), share[level.result]),
                (rows[here], pieces.take(here), np.ones(len(here))),
            ],
        )
    merged, cut = rows[by_rules[rows]], rows[~by_rules[rows]]
    return OwnRows("merge", merged, known.take(merged)), OwnRows("mean", cut, known.take(cut))


_Part = tuple[NDArray[np.int64], SparseRows, NDArray[np.float64]]


def _grown(known: SparseRows, parts: list[_Part]) -> SparseRows:
    """`known` with the rows of `parts` added: row numbers, their entries, and the factor of each row."""
    at = [part.row_of_entry() for _, part, _ in parts]
    return SparseRows.from_coo(
        np.concatenate([known.row_of_entry(), *(rows[n] for (rows, _, _), n in zip(parts, at, strict=True))]),
        np.concatenate([known.ids.astype(np.int64), *(part.ids.astype(np.int64) for _, part, _ in parts)]),
        np.concatenate(
            [known.weights, *(part.weights * factor[n] for (_, part, factor), n in zip(parts, at, strict=True))]
        ),
        len(known),
    )


METHOD = Initialiser(name="merge", build=build, paper="low-resource vocabulary expansion 2024, Algorithm 1")
