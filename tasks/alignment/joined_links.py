"""From the best partners of an alignment to links of sentence pairs."""

import numpy as np

from tasks.alignment.aligner import Aligned, DirectionName, offsets_of
from tasks.alignment.bitext import Bitext
from tasks.alignment.links import Links, links_of_best
from tasks.alignment.symmetrization import Method, symmetrize


def joined_links(words: Bitext, aligned: Aligned, start: int, end: int, method: Method) -> Links:
    """The links of the pairs `start` to `end` (exclusive), the directions joined by `method`.

    Those of 'forward' alone stand in the order of the target words, as fast_align prints them; all others in the order
    of the source words.
    """
    if method == "forward" or method == "reverse":
        return _links_of(words, aligned, start, end, method)
    forward = _links_of(words, aligned, start, end, "forward")
    return symmetrize(forward, _links_of(words, aligned, start, end, "reverse"), method)


def _links_of(words: Bitext, aligned: Aligned, start: int, end: int, direction: DirectionName) -> Links:
    offsets = offsets_of(words, direction)[start : end + 1]
    best = np.asarray(aligned.best[direction][offsets[0] : offsets[-1]], dtype=np.int32)
    return links_of_best(best, offsets - offsets[0], direction == "reverse")
