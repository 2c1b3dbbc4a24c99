"""Token pairs of a bilingual dictionary, which stands in for aligned text (trans-tokenization, appendix E)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tasks.embeddings.registry import TokenPairs
from tasks.embeddings.source_pieces import SourcePieces


def dictionary_pairs(
    entries: Sequence[tuple[str, str]], source: SourcePieces, target: SourcePieces, source_size: int
) -> TokenPairs:
    """The token pairs of dictionary entries; each entry counts once and is shared out over its tokens.

    An entry of n source and m target tokens gives each target token 1 in total, by two rules whose mean is taken:
    all-to-all gives each pair 1/n; in order gives source token i the part of target token j's interval
    [j n/m, (j+1) n/m) that falls on [i, i+1), divided by the interval's length. Both sides start a word.

    Args:
        entries: (source text, target text).
        source: how the source tokenizer cuts a text.
        target: how the target tokenizer cuts a text.
        source_size: tokens of the source vocabulary.
    """
    sides = [pieces.decompose([" " + entry[side] for entry in entries]) for side, pieces in enumerate((source, target))]
    sizes = [np.bincount(positions, minlength=len(entries)) for positions, _ in sides]
    firsts = [np.concatenate([[0], np.cumsum(size)[:-1]]) if len(size) else size for size in sizes]
    entry, j, i = _grid(sizes[1], sizes[0])
    n, m = sizes[0][entry], sizes[1][entry]
    overlap = np.maximum(np.minimum((j + 1) * n, (i + 1) * m) - np.maximum(j * n, i * m), 0)
    counts = (1 + overlap) / (2 * n)
    target_ids, source_ids = sides[1][1][firsts[1][entry] + j], sides[0][1][firsts[0][entry] + i]
    keys, place = np.unique(target_ids * source_size + source_ids, return_inverse=True)
    summed = np.bincount(place, counts, minlength=len(keys)).astype(np.float64)
    return TokenPairs(keys // source_size, keys % source_size, summed)


def _grid(
    rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """For entries of rows[e] x columns[e] cells: (entry, row, column) of each cell: int64 [cells] each."""
    cells = rows * columns
    entry = np.repeat(np.arange(len(cells)), cells)
    within = np.arange(len(entry)) - np.repeat(np.cumsum(cells) - cells, cells)
    return entry, within // np.maximum(columns[entry], 1), within % np.maximum(columns[entry], 1)
