"""Links of aligned sentence pairs as flat arrays."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Integers = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Links:
    """The links of N sentence pairs; pair p owns the entries `offsets[p]` to `offsets[p + 1]` of the other two.

    Attributes:
        offsets: int64 [N + 1].
        source: int32 [L], position in the source sentence, counted from 0.
        target: int32 [L], position in the target sentence.
    """

    offsets: Int64
    source: Int32
    target: Int32

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def pair_ids(self) -> Int64:
        """Pair of every link: int64 [L]."""
        return np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.offsets))

    def part(self, start: int, end: int) -> "Links":
        """The links of the pairs `start` to `end` (exclusive), without a copy of the positions."""
        first, last = self.offsets[start], self.offsets[end]
        return Links(self.offsets[start : end + 1] - first, self.source[first:last], self.target[first:last])


def offsets_from_lengths(lengths: Integers) -> Int64:
    """Start of every run plus the end of the last: int64 [N + 1] from lengths [N]."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def links_of_best(best: Int32, offsets: Int64, reverse: bool) -> Links:
    """Links from the best partner of every generated position.

    Args:
        best: int32 [tokens], position of the partner in the other sentence, -1 for none.
        offsets: int64 [N + 1], sentence boundaries in `best`.
        reverse: `best` belongs to source positions (partners are target positions), not to target positions.

    Returns:
        Links, in the order of the generated positions.
    """
    linked = best >= 0
    positions = (np.arange(len(best), dtype=np.int64) - np.repeat(offsets[:-1], np.diff(offsets)))[linked]
    before = np.zeros(len(best) + 1, dtype=np.int64)
    np.cumsum(linked, out=before[1:])
    own, partner = positions.astype(np.int32), best[linked].astype(np.int32)
    return Links(before[offsets], own, partner) if reverse else Links(before[offsets], partner, own)


def sort_links(links: Links) -> Links:
    """The same links ordered by source, then target, within every pair; duplicates dropped."""
    pairs = links.pair_ids()
    order = np.lexsort((links.target, links.source, pairs))
    pairs, source, target = pairs[order], links.source[order], links.target[order]
    keep = np.ones(len(pairs), dtype=bool)
    keep[1:] = (np.diff(pairs) != 0) | (np.diff(source) != 0) | (np.diff(target) != 0)
    counts = np.bincount(pairs[keep], minlength=len(links))
    return Links(offsets_from_lengths(counts), source[keep], target[keep])


def parts(count: int, size: int) -> Iterator[tuple[int, int]]:
    """Start and end of consecutive parts of at most `size` of `count` things."""
    for start in range(0, count, size):
        yield start, min(start + size, count)
