"""Links of aligned sentence pairs as flat arrays, and the Pharaoh text format ("0-0 1-2", counted from 0)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tasks.alignment.compiled import compiled

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


def format_pharaoh(links: Links) -> pa.StringArray:
    """One string per pair, links in their order, separated by one space; "" for a pair without links."""
    texts = pc.binary_join_element_wise(
        pa.array(links.source).cast(pa.string()), pa.array(links.target).cast(pa.string()), "-"
    )
    lists = pa.ListArray.from_arrays(pa.array(links.offsets.astype(np.int32)), texts)
    return pc.binary_join(lists, " ")


@compiled
def _scan_pharaoh(text: npt.NDArray[np.uint8], ends: Int64, source: Int32, target: Int32) -> tuple[int, int, int]:
    """Fill the arrays from `text`; returns (lines, links, byte of the first error or -1)."""
    lines, links, value, digits, side = 0, 0, 0, 0, 0
    for i in range(len(text)):
        byte = text[i]
        if 48 <= byte <= 57:
            value = value * 10 + (byte - 48)
            digits += 1
            if digits > 9:
                return lines, links, i
        elif byte == 45:
            if side == 1 or digits == 0:
                return lines, links, i
            source[links] = value
            side, value, digits = 1, 0, 0
        elif byte == 32 or byte == 10 or byte == 13:
            if side == 1:
                if digits == 0:
                    return lines, links, i
                target[links] = value
                links += 1
            elif digits > 0:
                return lines, links, i
            side, value, digits = 0, 0, 0
            if byte == 10:
                ends[lines] = links
                lines += 1
        else:
            return lines, links, i
    if side == 1 or digits > 0:
        return lines, links, len(text)
    return lines, links, -1


def parse_pharaoh(text: bytes | npt.NDArray[np.uint8]) -> Links:
    """Links from Pharaoh text, one pair a line, every line ended by a line feed.

    Raises:
        ValueError: something that is no link, or a last line without its end; names the line (from 1) and the byte.
    """
    data = np.frombuffer(text, dtype=np.uint8) if isinstance(text, bytes) else text
    ends = np.zeros(int(np.count_nonzero(data == 10)) + 1, dtype=np.int64)
    size = int(np.count_nonzero(data == 45)) + 1
    source, target = np.zeros(size, dtype=np.int32), np.zeros(size, dtype=np.int32)
    lines, links, error = _scan_pharaoh(data, ends[1:], source, target)
    if error >= 0:
        near = bytes(data[max(0, error - 20) : error + 20])
        raise ValueError(f"line {lines + 1}, byte {error}: not a link of the form 'i-j': ...{near!r}...")
    return Links(ends[: lines + 1], source[:links].copy(), target[:links].copy())


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
