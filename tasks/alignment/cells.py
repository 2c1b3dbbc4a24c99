"""Sentence pairs in units as flat arrays, and the index from every cell (source position, target position) to the
number of its word pair.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tasks.alignment.fast_align_kernels import count_parameters, fill_cells
from tasks.alignment.links import Int32, Int64, offsets_from_lengths

IN_MEMORY_CELLS = 64 * 2**20  # a larger index is a memory-mapped file
MOST_PARAMETERS = 2**31 - 1


@dataclass(frozen=True)
class Bitext:
    """N sentence pairs as word numbers.

    Attributes:
        source: int32 [source tokens], numbers below `source_words`.
        source_offsets: int64 [N + 1], sentence boundaries in `source`.
        target: int32 [target tokens], numbers below `target_words`.
        target_offsets: int64 [N + 1].
        source_words: size of the source vocabulary.
        target_words: size of the target vocabulary.
    """

    source: Int32
    source_offsets: Int64
    target: Int32
    target_offsets: Int64
    source_words: int
    target_words: int

    def __len__(self) -> int:
        return len(self.source_offsets) - 1


@dataclass(frozen=True)
class Cells:
    """The distinct word pairs (parameters) of a bitext, ordered by source word, and the parameter of every cell.

    Attributes:
        source: int32 [parameters], source word.
        target: int32 [parameters], target word.
        parameter: int32 [cells]; the cell of source position i (of n) and target position j of pair p is
            `offsets[p] + j * n + i`.
        offsets: int64 [N + 1].
    """

    source: Int32
    target: Int32
    parameter: Int32
    offsets: Int64


def build_cells(bitext: Bitext, folder: Path | None = None, name: str = "cells") -> Cells:
    """The cells of `bitext`; an index above `IN_MEMORY_CELLS` goes into the file `name` in `folder`, if one is given.

    Time is linear in the number of cells; nothing of their size is sorted.

    Raises:
        OverflowError: more than `MOST_PARAMETERS` distinct word pairs.
    """
    source_lengths, target_lengths = np.diff(bitext.source_offsets), np.diff(bitext.target_offsets)
    pairs = np.arange(len(bitext), dtype=np.int64)
    order = np.argsort(bitext.source, kind="stable")
    bounds = offsets_from_lengths(np.bincount(bitext.source, minlength=bitext.source_words))
    pair_of = np.repeat(pairs, source_lengths)
    position_of = (np.arange(len(bitext.source)) - bitext.source_offsets[pair_of]).astype(np.int32)
    first = count_parameters((bounds, pair_of[order]), bitext.target, bitext.target_offsets, bitext.target_words)
    if first[-1] > MOST_PARAMETERS:
        raise OverflowError(f"{first[-1]:,} distinct word pairs, at most {MOST_PARAMETERS:,} fit: align less text")
    offsets = offsets_from_lengths(source_lengths * target_lengths)
    cells = Cells(
        source=np.empty(first[-1], dtype=np.int32),
        target=np.empty(first[-1], dtype=np.int32),
        parameter=_index_array(int(offsets[-1]), folder, name),
        offsets=offsets,
    )
    fill_cells(
        (bounds, pair_of[order], position_of[order]),
        bitext.target,
        (bitext.source_offsets, bitext.target_offsets, offsets),
        (cells.source, cells.target),
        bitext.target_words,
        cells.parameter,
    )
    return cells


def _index_array(size: int, folder: Path | None, name: str) -> Int32:
    if folder is None or size <= IN_MEMORY_CELLS:
        return np.empty(size, dtype=np.int32)
    # A plain view: kernels are compiled for arrays, and a memory map's class would be compiled for again.
    return np.asarray(np.memmap(folder / f"{name}.int32", dtype=np.int32, mode="w+", shape=(size,))).view(np.ndarray)
