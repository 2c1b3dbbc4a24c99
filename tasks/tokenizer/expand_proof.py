"""Proof on text that an expanded tokenizer only joins what the source tokenizer cut."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from tasks.tokenizer.cuts import Cuts, cut


@dataclass
class Proof:
    """What was compared.

    Attributes:
        produced: int64 [new tokens]: how often each new token was produced.
        lines: texts compared.
        lines_with_new_tokens: texts in which a new token was produced; all others have the very same ids.
        tokens_before: source tokens.
        tokens_after: tokens of the expanded vocabulary.
        differences: texts whose ids, with each new token replaced by its old pieces, are not the old ids.
        decoded_otherwise: texts that the new ids decode to another text than the old ids.
        examples: the first texts that differ.
    """

    produced: NDArray[np.int64]
    lines: int = 0
    lines_with_new_tokens: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    differences: int = 0
    decoded_otherwise: int = 0
    examples: list[str] = field(default_factory=list)


def prove(
    old: Tokenizer, new: Tokenizer, pieces: Cuts, first_id: int, batches: Iterable[list[str]], decoded: int = 0
) -> Proof:
    """Compare the two tokenizers' ids on texts, special tokens not added.

    Args:
        old: the source tokenizer.
        new: the expanded one.
        pieces: the new tokens cut into old ones, in the order of their ids.
        first_id: id of the first new token.
        batches: lists of texts; one list at a time is held.
        decoded: how many of the first texts are decoded too.
    """
    proof = Proof(np.zeros(len(pieces.lengths), dtype=np.int64))
    for texts in batches:
        before, after = cut(old, texts), cut(new, texts)
        fresh = after.ids >= first_id
        proof.produced += np.bincount(after.ids[fresh] - first_id, minlength=len(proof.produced))
        differs = rows_that_differ(before, taken_apart(after, pieces, first_id))
        if proof.lines < decoded:
            lost = _decoded_otherwise(old, new, texts[: decoded - proof.lines])
            proof.decoded_otherwise += len(lost)
            proof.examples += lost[:3]
        proof.lines += len(texts)
        proof.lines_with_new_tokens += int(_any_in_row(fresh, after.lengths).sum())
        proof.tokens_before += len(before.ids)
        proof.tokens_after += len(after.ids)
        proof.differences += len(differs)
        proof.examples += [texts[row] for row in differs[:3]]
    return proof


def taken_apart(cuts: Cuts, pieces: Cuts, first_id: int) -> Cuts:
    """`cuts` with every token from `first_id` on replaced by its `pieces`."""
    if not len(pieces.lengths):
        return cuts
    fresh = cuts.ids >= first_id
    which = np.where(fresh, cuts.ids - first_id, 0)
    lengths = np.where(fresh, pieces.lengths[which], 1)
    ends = np.cumsum(lengths)
    within = np.arange(int(lengths.sum())) - np.repeat(ends - lengths, lengths)
    starts = np.cumsum(pieces.lengths) - pieces.lengths
    ids = np.repeat(cuts.ids, lengths)
    opened = np.repeat(fresh, lengths)
    ids[opened] = pieces.ids[(np.repeat(starts[which], lengths) + within)[opened]]
    totals = np.concatenate([[0], np.cumsum(lengths)])[np.concatenate([[0], np.cumsum(cuts.lengths)])]
    return Cuts(ids, np.diff(totals))


def rows_that_differ(first: Cuts, second: Cuts) -> NDArray[np.int64]:
    """Numbers of the strings that are cut differently."""
    differs = first.lengths != second.lengths
    a = first.ids[np.repeat(~differs, first.lengths)]
    b = second.ids[np.repeat(~differs, second.lengths)]
    same_length = np.flatnonzero(~differs)
    rows = np.repeat(same_length, first.lengths[same_length])
    differs[rows[a != b]] = True
    return np.flatnonzero(differs)


def _any_in_row(flags: NDArray[np.bool_], lengths: NDArray[np.int64]) -> NDArray[np.bool_]:
    sums = np.concatenate([[0], np.cumsum(flags)])[np.concatenate([[0], np.cumsum(lengths)])]
    return np.diff(sums) > 0


def _decoded_otherwise(old: Tokenizer, new: Tokenizer, texts: list[str]) -> list[str]:
    def back(tokenizer: Tokenizer) -> list[str]:
        ids = [encoding.ids for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)]
        decoded: list[str] = tokenizer.decode_batch(ids, skip_special_tokens=False)
        return decoded

    return [text for text, a, b in zip(texts, back(old), back(new), strict=True) if a != b]
