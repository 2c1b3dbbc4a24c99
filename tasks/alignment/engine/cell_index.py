"""The index from every cell (source position, target position) to the number of its word pair.

The word pairs (parameters) are grouped by source word, and inside a group numbered by first occurrence. The cells of
one source position are neighbours: cell `first_cell[p] + i * m + j` is source position i and target position j of
pair p with m target words.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from tasks.alignment.bitext import Bitext
from tasks.alignment.compiled import compiled
from tasks.alignment.engine.parallel import Threads, split
from tasks.alignment.links import Int32, Int64, offsets_from_lengths

UInt32 = npt.NDArray[np.uint32]  # unsigned: numba then leaves out the test for a negative index
MOST_PARAMETERS = 2**31 - 1


@dataclass(frozen=True)
class CellIndex:
    """The parameters of some sentence pairs and the parameter of every cell.

    Attributes:
        first: int64 [source words + 1], first parameter of each source word.
        target: int32 [parameters], target word.
        cell: uint32 [cells], parameter.
    """

    first: Int64
    target: Int32
    cell: UInt32


def first_cells(bitext: Bitext) -> Int64:
    """First cell of every pair, plus the number of cells: int64 [N + 1]."""
    return offsets_from_lengths(np.diff(bitext.source_offsets) * np.diff(bitext.target_offsets))


@compiled
def _group_by_word(
    source: Int32, source_offsets: Int64, target_offsets: Int64, words: int
) -> tuple[Int64, Int32, Int64, Int64]:
    """Occurrences of every source word, in corpus order.

    Returns:
        (int64 [words + 1] boundaries, int32 [tokens] pair of each occurrence, int64 [tokens] first cell of it,
        int64 [words] cells of each word).
    """
    bounds = np.zeros(words + 1, dtype=np.int64)
    for k in range(len(source)):
        bounds[source[k] + 1] += 1
    for w in range(words):
        bounds[w + 1] += bounds[w]
    place = bounds[:-1].copy()
    pair_of, cell_of = np.empty(len(source), dtype=np.int32), np.empty(len(source), dtype=np.int64)
    weights = np.zeros(words, dtype=np.int64)
    cell = 0
    for p in range(len(source_offsets) - 1):
        m = target_offsets[p + 1] - target_offsets[p]
        for k in range(source_offsets[p], source_offsets[p + 1]):
            at = place[source[k]]
            pair_of[at], cell_of[at] = p, cell
            place[source[k]] = at + 1
            weights[source[k]] += m
            cell += m
    return bounds, pair_of, cell_of, weights


@compiled
def _count(
    words: tuple[int, int], bounds: Int64, pair_of: Int32, target: Int32, target_offsets: Int64, target_words: int
) -> Int64:
    """Distinct target words seen with each of the source words `words[0]` to `words[1]`: int64."""
    seen_by = np.full(target_words, -1, dtype=np.int32)
    found = np.zeros(words[1] - words[0], dtype=np.int64)
    for w in range(words[0], words[1]):
        count = 0
        for k in range(bounds[w], bounds[w + 1]):
            p = pair_of[k]
            for j in range(target_offsets[p], target_offsets[p + 1]):
                if seen_by[target[j]] != w:
                    seen_by[target[j]] = w
                    count += 1
        found[w - words[0]] = count
    return found


@compiled
def _fill(
    words: tuple[int, int],
    occurrences: tuple[Int64, Int32, Int64],
    target: Int32,
    target_offsets: Int64,
    target_words: int,
    index: tuple[Int64, Int32, UInt32],
) -> None:
    """Fill the parameters of the source words `words[0]` to `words[1]` and their cells."""
    bounds, pair_of, cell_of = occurrences
    first, parameter_target, cell = index
    number = np.full(target_words, -1, dtype=np.int64)  # of the last word that saw it: below first[w] if not this one
    for w in range(words[0], words[1]):
        start = first[w]
        found = start
        for k in range(bounds[w], bounds[w + 1]):
            p = pair_of[k]
            at = cell_of[k] - target_offsets[p]
            for j in range(target_offsets[p], target_offsets[p + 1]):
                word = target[j]
                if number[word] < start:
                    number[word] = found
                    parameter_target[found] = word
                    found += 1
                cell[at + j] = number[word]


@dataclass(frozen=True)
class CellPlan:
    """What is known before the index is filled.

    Attributes:
        first: int64 [source words + 1], first parameter of each source word.
        cells: number of cells.
    """

    first: Int64
    cells: int
    _occurrences: tuple[Int64, Int32, Int64]
    _ranges: Int64


def plan_cells(bitext: Bitext, threads: Threads) -> CellPlan:
    """Count the parameters of `bitext` (time is linear in the cells).

    Raises:
        OverflowError: more than `MOST_PARAMETERS` distinct word pairs.
    """
    bounds, pair_of, cell_of, weights = _group_by_word(
        bitext.source, bitext.source_offsets, bitext.target_offsets, bitext.source_words
    )
    ranges = split(weights, threads.count)
    calls = [
        ((int(a), int(b)), bounds, pair_of, bitext.target, bitext.target_offsets, bitext.target_words)
        for a, b in pairwise(ranges)
    ]
    first = offsets_from_lengths(np.concatenate(threads.run(_count, calls)))
    if first[-1] > MOST_PARAMETERS:
        raise OverflowError(f"{first[-1]:,} distinct word pairs, at most {MOST_PARAMETERS:,} fit: align less text")
    return CellPlan(first, int(weights.sum()), (bounds, pair_of, cell_of), ranges)


def fill_cells(bitext: Bitext, plan: CellPlan, threads: Threads) -> CellIndex:
    """The index of `bitext` that `plan` was made for."""
    index = CellIndex(plan.first, np.empty(plan.first[-1], dtype=np.int32), np.empty(plan.cells, dtype=np.uint32))
    arrays = (index.first, index.target, index.cell)
    calls = [
        ((int(a), int(b)), plan._occurrences, bitext.target, bitext.target_offsets, bitext.target_words, arrays)
        for a, b in pairwise(plan._ranges)
    ]
    threads.run(_fill, calls)
    return index
