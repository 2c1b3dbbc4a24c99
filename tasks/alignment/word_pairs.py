"""Counts of word pairs from a trained direction or from links."""

import numpy as np

from tasks.alignment.cells import Bitext, Cells
from tasks.alignment.links import Int32, Links, parts
from tasks.alignment.sums import Float64, PairSums

LEAST_COUNT = 0.01  # expected counts below this are dropped; nearly all parameters are, and none of them decides a row
LINK_PAIRS = 100_000  # sentence pairs counted at once


def expected_counts(cells: Cells, counts: Float64) -> tuple[Int32, Int32, Float64]:
    """Word pairs with an expected count of at least `LEAST_COUNT`.

    Args:
        cells: the cells by which was counted.
        counts: float64 [parameters].

    Returns:
        (int32 source words, int32 target words, float64 counts), ordered by source, then target. The share of the NULL
        word is not among them.
    """
    kept = np.flatnonzero(counts >= LEAST_COUNT)
    order = kept[np.lexsort((cells.target[kept], cells.source[kept]))]
    return cells.source[order], cells.target[order], counts[order]


def link_counts(bitext: Bitext, links: Links) -> tuple[Int32, Int32, Float64]:
    """How often each word pair is linked, as `expected_counts` returns it."""
    sums = PairSums(seconds=bitext.target_words, columns=1)
    for start, end in parts(len(links), LINK_PAIRS):
        some = links.part(start, end)
        pairs = start + some.pair_ids()
        source = bitext.source[bitext.source_offsets[pairs] + some.source]
        target = bitext.target[bitext.target_offsets[pairs] + some.target]
        sums.add(source, target, np.ones((len(source), 1)))
    source, target, counts = sums.result()
    return source.astype(np.int32), target.astype(np.int32), counts[:, 0]
