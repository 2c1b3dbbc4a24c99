"""The Pharaoh text format of links ("0-0 1-2", counted from 0), written and read by compiled kernels."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tasks.alignment.compiled import compiled
from tasks.alignment.links import Int32, Int64, Links
from tasks.alignment.word_table import buffers

UInt8 = npt.NDArray[np.uint8]
_MOST_DIGITS = 10


@compiled
def _digits(value: int) -> int:
    count = 1
    while value >= 10:
        value //= 10
        count += 1
    return count


@compiled
def _put(value: int, text: UInt8, position: int) -> int:
    """Write a number; returns the byte after it."""
    end = position + _digits(value)
    place = end - 1
    while place >= position:
        text[place] = 48 + value % 10
        value //= 10
        place -= 1
    return end


@compiled
def _write_links(offsets: Int64, source: Int32, target: Int32, text: UInt8, ends: Int32) -> int:
    """Fill `text`, and the end of every pair's text in it; returns the bytes written."""
    position = 0
    for pair in range(len(offsets) - 1):
        for k in range(offsets[pair], offsets[pair + 1]):
            if k > offsets[pair]:
                text[position] = 32
                position += 1
            position = _put(source[k], text, position)
            text[position] = 45
            position = _put(target[k], text, position + 1)
        ends[pair] = position
    return position


def format_pharaoh(links: Links) -> pa.StringArray:
    """One string per pair, links in their order, separated by one space; "" for a pair without links."""
    digits = _MOST_DIGITS
    if len(links.source):
        digits = len(str(max(int(links.source.max()), int(links.target.max()))))
    text = np.empty(len(links.source) * (2 * digits + 2), dtype=np.uint8)
    ends = np.zeros(len(links) + 1, dtype=np.int32)
    size = _write_links(links.offsets, links.source, links.target, text, ends[1:])
    return pa.StringArray.from_buffers(len(links), pa.py_buffer(ends), pa.py_buffer(text[:size].copy()))


@compiled
def _scan_pharaoh(text: UInt8, ends: Int64, source: Int32, target: Int32) -> tuple[int, int, int]:
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


def parse_pharaoh(text: bytes | UInt8) -> Links:
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


def spread(texts: pa.StringArray, rows: Int64, count: int) -> pa.StringArray:
    """`texts` at the rows int64 [N] among `count` rows, "" at the others."""
    data, first = buffers(texts)
    offsets = np.zeros(count + 1, dtype=np.int32)
    offsets[1:][rows] = np.diff(first)
    np.cumsum(offsets, out=offsets)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(data))


@compiled
def _end_lines(data: UInt8, first: Int64, lines: UInt8) -> None:
    position = 0
    for row in range(len(first) - 1):
        for k in range(first[row], first[row + 1]):
            lines[position] = data[k]
            position += 1
        lines[position] = 10
        position += 1


def lines_of(texts: pa.StringArray) -> memoryview:
    """The bytes of `texts` with a line feed after each."""
    data, first = buffers(texts)
    lines = np.empty(len(data) + len(texts), dtype=np.uint8)
    _end_lines(data, first, lines)
    return lines.data
