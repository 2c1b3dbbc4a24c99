"""A file as blocks of whole lines, whatever the length of a line, in bounded memory."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tasks.corpus.open_file import ByteStream, Location, open_bytes
from tasks.corpus.records import MAX_TEXT_BYTES, Column, Integers

BLOCK_BYTES = 2 * 1024 * 1024
_HEAD_BYTES = 1000
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class LineBlock:
    """Consecutive lines of a file.

    Attributes:
        lines: int64 [n], line numbers counted from 1.
        column: the lines, each with its line end; of a line over `MAX_TEXT_BYTES`, perhaps only the head. Sizes are
            without the line feed.
        position: bytes of the file taken in so far.
    """

    lines: Integers
    column: Column
    position: int


@dataclass(frozen=True)
class _LongLine:
    size: int
    head: bytes


def line_blocks(location: Location) -> Iterator[LineBlock]:
    r"""The lines of a file, block by block; lines end with "\n", the last one also at the end of the file.

    A line longer than `MAX_TEXT_BYTES` is not held: its bytes are counted and its head is given. A byte order mark at
    the start is dropped.

    Raises:
        InputError: the file is missing, empty, damaged or not of a kind that is read.
    """
    first = 1
    with open_bytes(location) as stream:
        for piece in _pieces(stream):
            block = _block(first, piece, stream.position())
            first += len(block.lines)
            yield block
    if first == 1:
        raise location.error("the file is empty; name a file with text, or leave the source out")


def _pieces(stream: ByteStream) -> Iterator[bytes | _LongLine]:
    carry, skipped = b"", None
    block = stream.read(BLOCK_BYTES).removeprefix(_BOM)
    while block:
        if skipped is not None:
            end = block.find(b"\n")
            if end < 0:
                skipped = _LongLine(skipped.size + len(block), skipped.head)
                block = stream.read(BLOCK_BYTES)
                continue
            yield _LongLine(skipped.size + end, skipped.head)
            block, skipped = block[end + 1 :], None
        data = carry + block
        end = data.rfind(b"\n") + 1
        if end:
            yield data[:end]
        carry = data[end:]
        if len(carry) > MAX_TEXT_BYTES:
            skipped, carry = _LongLine(len(carry), carry[:_HEAD_BYTES]), b""
        block = stream.read(BLOCK_BYTES)
    if skipped is not None:
        yield skipped
    elif carry:
        yield carry + b"\n"


def _block(first: int, piece: bytes | _LongLine, position: int) -> LineBlock:
    if isinstance(piece, _LongLine):
        column = Column(pa.array([piece.head], pa.binary()), np.array([piece.size], dtype=np.int64))
        return LineBlock(np.array([first], dtype=np.int64), column, position)
    ends = np.flatnonzero(np.frombuffer(piece, dtype=np.uint8) == 10).astype(np.int32) + 1
    offsets = np.concatenate([np.zeros(1, dtype=np.int32), ends])
    texts = pa.Array.from_buffers(pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(piece)])
    sizes = np.diff(offsets).astype(np.int64) - 1
    return LineBlock(np.arange(first, first + len(ends), dtype=np.int64), Column(texts, sizes), position)
