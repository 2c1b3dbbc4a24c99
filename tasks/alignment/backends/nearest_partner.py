"""The nearest partner of every word among those that a table of word pairs allows."""

from dataclasses import dataclass

import numpy as np

from tasks.alignment.aligner import Int16
from tasks.alignment.compiled import compiled
from tasks.alignment.links import Int32, Int64, Integers, offsets_from_lengths

Rows = tuple[Int64, Int32]
"""int64 [words + 1] first partner of each word, int32 [pairs] partners, ascending for each word."""


@dataclass(frozen=True)
class Translations:
    """Pairs of words that may be linked.

    Attributes:
        of_target: source words of each target word.
        of_source: target words of each source word.
    """

    of_target: Rows
    of_source: Rows


def make_translations(source: Integers, target: Integers, source_words: int, target_words: int) -> Translations:
    """From pairs of a source and a target word, in any order, each any number of times."""
    keys = np.unique(target.astype(np.int64) * source_words + source)
    targets, sources = np.divmod(keys, source_words)
    order = np.argsort(sources, kind="stable")
    return Translations(
        of_target=(offsets_from_lengths(np.bincount(targets, minlength=target_words)), sources.astype(np.int32)),
        of_source=(offsets_from_lengths(np.bincount(sources, minlength=source_words)), targets[order].astype(np.int32)),
    )


@compiled
def fill_nearest(generated: tuple[Int32, Int64], given: tuple[Int32, Int64], rows: Rows, best: Int16) -> None:
    """Fill `best` with the position of each generated word's partner that is nearest to the diagonal.

    Args:
        generated: int32 [tokens] words, int64 [N + 1] sentence boundaries.
        given: the same of the other side.
        rows: partners of each generated word.
        best: int16 [tokens], -1 where nothing is found.
    """
    first, partners = rows
    for pair in range(len(generated[1]) - 1):
        begin, size = generated[1][pair], generated[1][pair + 1] - generated[1][pair]
        other, width = given[1][pair], given[1][pair + 1] - given[1][pair]
        for j in range(size):
            word = generated[0][begin + j]
            start, end = first[word], first[word + 1]
            if start == end:
                continue
            nearest = -1
            least = np.int64(0)
            for i in range(width):
                distance = abs((2 * i + 1) * size - (2 * j + 1) * width)
                if nearest >= 0 and distance >= least:
                    continue
                partner = given[0][other + i]
                low, high = start, end
                while low < high:
                    middle = (low + high) // 2
                    if partners[middle] < partner:
                        low = middle + 1
                    else:
                        high = middle
                if low < end and partners[low] == partner:
                    nearest, least = i, distance
            best[begin + j] = nearest
