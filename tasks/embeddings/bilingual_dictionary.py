"""Bilingual dictionaries: read from a file, or derived from an alignment's counts."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tasks.contract import InputError
from tasks.embeddings.text_lines import numbered_lines

_HEADERS = {("src", "tgt"), ("source", "target")}


def read_dictionary(path: Path) -> list[tuple[str, str]]:
    """The entries (source text, target text) of a word list, one `source<TAB>target` a line; plain, .gz or .zst.

    Empty lines and a first line `src<TAB>tgt` or `source<TAB>target` are no entries. Equal entries are kept each time
    they occur.

    Raises:
        InputError: it cannot be read, a line has not two fields, an entry's side is empty, or there is no entry.
    """
    entries: list[tuple[str, str]] = []
    for number, line in numbered_lines(path, "dictionary"):
        fields = tuple(field.strip() for field in line.split("\t"))
        if fields == ("",) or (number == 1 and fields in _HEADERS):
            continue
        if len(fields) != 2 or not all(fields):
            raise InputError(
                f"dictionary {path.name}, line {number}: {line.strip()!r}; expected `source<TAB>target`, both there"
            )
        entries.append((fields[0], fields[1]))
    if not entries:
        raise InputError(f"dictionary {path.name}: there is no entry in it")
    return entries


def dictionary_of_alignment(folder: Path, min_count: float) -> list[tuple[str, str]]:
    """Each target word with the source word it is aligned with most, where that count is at least `min_count`.

    Of equal counts the source unit of the smaller id is taken.

    Args:
        folder: an alignment: word_pairs.parquet, source_units.parquet, target_units.parquet.
        min_count: least count.

    Raises:
        InputError: no pair has such a count.
    """
    pairs = pq.read_table(folder / "word_pairs.parquet", columns=["source_unit", "target_unit", "count"])
    pairs = pairs.group_by(["source_unit", "target_unit"]).aggregate([("count", "sum")])
    pairs = pairs.filter(pc.greater_equal(pairs["count_sum"], min_count))
    source, target = (pairs[name].to_numpy() for name in ("source_unit", "target_unit"))
    order = np.lexsort((source, -pairs["count_sum"].to_numpy(), target))
    source, target = source[order], target[order]
    first = np.flatnonzero(np.diff(target, prepend=-1))
    if not len(first):
        raise InputError(
            f"dictionary: no aligned pair of words has a count of {min_count}; lower it, or give a word list"
        )
    texts = [
        pq.read_table(folder / f"{side}_units.parquet", columns=["text"]).column(0) for side in ("source", "target")
    ]
    words = [text.take(pa.array(ids[first])).to_pylist() for text, ids in zip(texts, (source, target), strict=True)]
    return [(one.strip(), two.strip()) for one, two in zip(*words, strict=True) if one.strip() and two.strip()]
