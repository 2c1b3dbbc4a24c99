"""The longest known tokens that a token contains."""

import numpy as np
from numpy.typing import NDArray

from tasks.embeddings.canonical import Vocabulary


def contained_tokens(
    vocabulary: Vocabulary, rows: NDArray[np.int64], known: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each token of `rows`, the longest tokens of `known` that it contains, not overlapping, in order of position.

    The longest contained token is taken first (the leftmost of equal length), then the longest that does not overlap
    with it, and so on. Length is in characters, the word-start space included; containment is of the canonical texts,
    so " house" is contained in " houses" and not in "houses". Byte tokens and tokens of white space alone are no parts:
    every text contains them, and they say nothing about it. Of two tokens with the same text, the first by token string
    is taken.

    Substrings are looked up in a hash table, longest first: the work is rows x (token length squared), whatever the
    size of the vocabulary.

    Args:
        vocabulary: the vocabulary of both.
        rows: int64 [n]: tokens to take apart.
        known: int64 [m]: tokens that may be parts.

    Returns:
        (position in `rows`, token id) of each part: int64 [parts] each.
    """
    tokens, keys = vocabulary.tokens, vocabulary.keys
    order = sorted((i for i in known.tolist() if not vocabulary.byte[i]), key=lambda i: tokens[i], reverse=True)
    by_text = {keys[i]: i for i in order if keys[i].strip()}
    lengths = sorted({len(key) for key in by_text}, reverse=True)
    positions: list[int] = []
    parts: list[int] = []
    for position, row in enumerate(rows.tolist()):
        found = _parts_of(keys[row], by_text, lengths)
        positions += [position] * len(found)
        parts += found
    return np.array(positions, dtype=np.int64), np.array(parts, dtype=np.int64)


def _parts_of(key: str, by_text: dict[str, int], lengths: list[int]) -> list[int]:
    """The parts of one text, in order of position."""
    free = [(0, len(key))]
    found: list[tuple[int, int]] = []
    for length in lengths:
        rest: list[tuple[int, int]] = []
        for start, end in free:
            at = start
            while at + length <= end:
                part = by_text.get(key[at : at + length])
                if part is None:
                    at += 1
                    continue
                found.append((at, part))
                if at > start:
                    rest.append((start, at))
                at += length
                start = at
            if start < end:
                rest.append((start, end))
        free = rest
        if not free:
            break
    return [part for _, part in sorted(found)]
