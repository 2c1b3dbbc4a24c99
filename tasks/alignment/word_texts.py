"""Entries of outside word lists, found among the words of a job by their texts."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.alignment.links import Int32, Int64, offsets_from_lengths


@dataclass(frozen=True)
class WordTexts:
    """The words of one side by text; several units can have one text (a word with and without a blank before it).

    Attributes:
        texts: distinct texts, in lower case where case is ignored.
        first: int64 [texts + 1], first of each text's words in `words`.
        words: int32 [words].
        lowercase: case is ignored.
    """

    texts: pa.StringArray
    first: Int64
    words: Int32
    lowercase: bool

    def find(self, wanted: pa.StringArray) -> Int64:
        """Place of each text in `texts`, -1 where it is none of them: int64 [wanted]."""
        found = pc.index_in(folded(wanted, self.lowercase), value_set=self.texts)
        return np.asarray(found.fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.int64)

    def counts(self, places: Int64) -> Int64:
        """Words with each text, 0 for the place -1: int64 [places]."""
        return np.where(places < 0, 0, np.diff(self.first)[places] if len(self.texts) else 0)


def folded(texts: pa.StringArray, lowercase: bool) -> pa.StringArray:
    """The texts, in lower case if so wanted."""
    return pc.utf8_lower(texts) if lowercase else texts


def word_of_unit(units: pa.StringArray) -> Int32:
    """Class of each unit where case is ignored, in the order of first occurrence: int32 [units]."""
    indices = folded(units, True).dictionary_encode().indices
    return np.asarray(indices.to_numpy(zero_copy_only=False), dtype=np.int32)


def word_texts(units: pa.StringArray, lowercase: bool) -> WordTexts:
    """The words of a side whose units have these texts.

    Words are the units, or, where case is ignored, classes of units with equal texts (see `word_of_unit`).
    """
    encoded = folded(units, lowercase).dictionary_encode()
    of_unit = np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)
    size = len(encoded.dictionary)
    if lowercase:
        return WordTexts(encoded.dictionary, np.arange(size + 1), np.arange(size, dtype=np.int32), True)
    first = offsets_from_lengths(np.bincount(of_unit, minlength=size))
    return WordTexts(encoded.dictionary, first, np.argsort(of_unit, kind="stable").astype(np.int32), False)


def word_pairs(source: tuple[WordTexts, Int64], target: tuple[WordTexts, Int64]) -> tuple[Int64, Int32, Int32]:
    """Every pair of words for entries of which both sides are found.

    Args:
        source: the source words and the place of each entry's source text among them (-1 where it is not there).
        target: the same of the target side.

    Returns:
        int64 [P] entry, ascending, int32 [P] source word, int32 [P] target word.
    """
    widths = source[0].counts(source[1]), target[0].counts(target[1])
    pairs = widths[0] * widths[1]
    entry = np.repeat(np.arange(len(pairs), dtype=np.int64), pairs)
    rank = np.arange(int(pairs.sum()), dtype=np.int64) - np.repeat(offsets_from_lengths(pairs)[:-1], pairs)
    one = source[0].words[source[0].first[source[1][entry]] + rank // widths[1][entry]]
    other = target[0].words[target[0].first[target[1][entry]] + rank % widths[1][entry]]
    return entry, one, other
