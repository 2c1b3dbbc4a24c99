"""Joining the links of the two directions (F. J. Och, H. Ney: A Systematic Comparison of Various Statistical Alignment
Models, 2003; P. Koehn et al.: Edinburgh System Description for IWSLT 2005), as fast_align's atools does it.
"""

from typing import Literal

import numpy as np
import numpy.typing as npt

from tasks.alignment.compiled import compiled
from tasks.alignment.links import Int32, Int64, Links

Method = Literal["intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and", "forward", "reverse"]
_GROWTH = {"grow-diag": 0, "grow-diag-final": 1, "grow-diag-final-and": 2}


def symmetrize(forward: Links, reverse: Links, method: Method) -> Links:
    """The joined links of two directions.

    Args:
        forward: links of the direction that generates the target side, N pairs.
        reverse: links of the other direction, the same N pairs.
        method: 'intersection', 'union', 'forward' or 'reverse' (that direction alone), or growth from the intersection:
            'grow-diag' adds links of the union beside a link already taken (also diagonally) when one of their words
            has no link yet; '-final' then adds, first from `forward`, then from `reverse`, the links with a word that
            has none; '-final-and' only those with both words unlinked.

    Returns:
        Links ordered by source, then target, within each pair.

    Raises:
        ValueError: the two directions have different numbers of pairs.
    """
    if len(forward) != len(reverse):
        raise ValueError(f"the directions have different numbers of pairs: {len(forward)} and {len(reverse)}")
    capacity = len(forward.source) + len(reverse.source)
    offsets = np.zeros(len(forward) + 1, dtype=np.int64)
    source, target = np.empty(capacity, dtype=np.int32), np.empty(capacity, dtype=np.int32)
    if method in _GROWTH:
        keep, growth = 2, _GROWTH[method]
    else:
        keep, growth = {"intersection": 2, "union": 1, "forward": 3, "reverse": 4}[method], -1
    found = _join(
        (forward.offsets, forward.source, forward.target),
        (reverse.offsets, reverse.source, reverse.target),
        keep,
        growth,
        (offsets, source, target),
    )
    return Links(offsets, source[:found].copy(), target[:found].copy())


@compiled
def _may_grow(taken: npt.NDArray[np.uint8], i: int, j: int) -> bool:
    """Whether one of the eight neighbours of (i, j) is taken."""
    for a in range(max(0, i - 1), min(taken.shape[0], i + 2)):
        for b in range(max(0, j - 1), min(taken.shape[1], j + 2)):
            if taken[a, b] and (a != i or b != j):
                return True
    return False


@compiled
def _grow(
    votes: npt.NDArray[np.uint8],
    taken: npt.NDArray[np.uint8],
    linked: tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]],
) -> None:
    """Sweep over the union in order of source, then target, until a sweep adds nothing."""
    changed = True
    while changed:
        changed = False
        for i in range(votes.shape[0]):
            for j in range(votes.shape[1]):
                if votes[i, j] and not taken[i, j] and not (linked[0][i] and linked[1][j]) and _may_grow(taken, i, j):
                    taken[i, j], linked[0][i], linked[1][j] = 1, 1, 1
                    changed = True


@compiled
def _finish(
    votes: npt.NDArray[np.uint8],
    taken: npt.NDArray[np.uint8],
    linked: tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]],
    direction: int,
    both: bool,
) -> None:
    """Add the links of one direction whose words (one of them, or both) have no link yet."""
    for i in range(votes.shape[0]):
        for j in range(votes.shape[1]):
            if (votes[i, j] & direction) == 0 or taken[i, j]:
                continue
            busy = linked[0][i] + linked[1][j]
            if busy == 0 or (busy == 1 and not both):
                taken[i, j], linked[0][i], linked[1][j] = 1, 1, 1


@compiled
def _join(
    forward: tuple[Int64, Int32, Int32],
    reverse: tuple[Int64, Int32, Int32],
    keep: int,
    growth: int,
    result: tuple[Int64, Int32, Int32],
) -> int:
    """Fill `result` pair by pair; returns the number of links.

    Every pair gets a grid of votes: 1 for a link of `forward`, 2 of `reverse`, 3 of both. `keep` says which votes are
    taken at first (1: any, 2: both, 3: forward, 4: reverse), `growth` what follows (-1: nothing).
    """
    offsets, source, target = result
    found = 0
    for p in range(len(forward[0]) - 1):
        width, height = 0, 0
        for links in (forward, reverse):
            for k in range(links[0][p], links[0][p + 1]):
                width, height = max(width, links[1][k] + 1), max(height, links[2][k] + 1)
        votes = np.zeros((width, height), dtype=np.uint8)
        taken = np.zeros((width, height), dtype=np.uint8)
        linked = (np.zeros(width, dtype=np.uint8), np.zeros(height, dtype=np.uint8))
        for k in range(forward[0][p], forward[0][p + 1]):
            votes[forward[1][k], forward[2][k]] |= 1
        for k in range(reverse[0][p], reverse[0][p + 1]):
            votes[reverse[1][k], reverse[2][k]] |= 2
        for i in range(width):
            for j in range(height):
                vote = votes[i, j]
                if (
                    (keep == 1 and vote > 0)
                    or (keep == 2 and vote == 3)
                    or (keep == 3 and (vote & 1) > 0)
                    or (keep == 4 and (vote & 2) > 0)
                ):
                    taken[i, j], linked[0][i], linked[1][j] = 1, 1, 1
        if growth >= 0:
            _grow(votes, taken, linked)
        if growth > 0:
            _finish(votes, taken, linked, 1, growth == 2)
            _finish(votes, taken, linked, 2, growth == 2)
        for i in range(width):
            for j in range(height):
                if taken[i, j]:
                    source[found], target[found] = i, j
                    found += 1
        offsets[p + 1] = found
    return found
