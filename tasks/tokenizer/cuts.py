"""Strings cut into tokens, and counts of what they are cut into."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

_CHARACTERS_AT_ONCE = 4_000_000  # an encoding takes some 100 bytes a token


@dataclass(frozen=True)
class Cuts:
    """Strings cut into tokens, one after the other.

    Attributes:
        ids: int64 [tokens].
        lengths: int64 [strings]: tokens of each string.
    """

    ids: NDArray[np.int64]
    lengths: NDArray[np.int64]


def cut(tokenizer: Tokenizer, strings: Sequence[str]) -> Cuts:
    """`strings` cut by `tokenizer`, special tokens not added; encoded in parts of some 4 million characters."""
    ids, lengths = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for part in _slices(strings):
        found = [encoding.ids for encoding in tokenizer.encode_batch_fast(part, add_special_tokens=False)]
        ids.append(np.fromiter(chain.from_iterable(found), dtype=np.int64))
        lengths.append(np.fromiter(map(len, found), dtype=np.int64, count=len(found)))
    return Cuts(np.concatenate(ids), np.concatenate(lengths))


def occurrences(cuts: Cuts, weights: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """How often each token occurs, where string i is there `weights[i]` times (int64 [strings]): int64 [size]."""
    return np.bincount(cuts.ids, np.repeat(weights, cuts.lengths), minlength=size).astype(np.int64)


def aligned_occurrences(
    cuts: Cuts,
    characters: NDArray[np.int64],
    others: Cuts,
    other_characters: NDArray[np.int64],
    weights: NDArray[np.int64],
) -> NDArray[np.int64]:
    """How often each token of `cuts` starts and ends where tokens of `others` do: int64 [size].

    Args:
        cuts: strings cut one way.
        characters: int64 [size]: characters of each token of `cuts`.
        others: the same strings cut another way.
        other_characters: int64: characters of each token of `others`.
        weights: int64 [strings]: how often each string is there.
    """
    ends = np.cumsum(characters[cuts.ids])
    bounds = np.zeros(int(ends[-1]) + 1 if len(ends) else 1, dtype=bool)
    bounds[0] = True
    bounds[np.cumsum(other_characters[others.ids])] = True
    both = bounds[ends] & bounds[ends - characters[cuts.ids]]
    return np.bincount(cuts.ids, np.repeat(weights, cuts.lengths) * both, minlength=len(characters)).astype(np.int64)


def token_characters(tokenizer: Tokenizer) -> NDArray[np.int64]:
    """Characters of each token's string, by id: int64 [largest id + 1]."""
    vocabulary = tokenizer.get_vocab()
    result = np.zeros(max(vocabulary.values(), default=-1) + 1, dtype=np.int64)
    result[list(vocabulary.values())] = [len(token) for token in vocabulary]
    return result


def _slices(strings: Sequence[str]) -> Iterator[Sequence[str]]:
    start = length = 0
    for end, string in enumerate(strings, start=1):
        length += len(string)
        if length >= _CHARACTERS_AT_ONCE or end == len(strings):
            yield strings[start:end]
            start, length = end, 0
