"""Lines of a text file or of standard input, in blocks of bytes: plain, gzip, Zstandard or xz."""

import gzip
import lzma
import sys
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tasks.alignment.links import Int64
from tasks.contract import InputError

UInt8 = npt.NDArray[np.uint8]
BLOCK_BYTES = 4 * 2**20
LONGEST_LINE = 256 * 2**20
_LINE_FEED, _RETURN = 10, 13
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_REFUSED = {
    b"\xff\xfe": "is UTF-16, not UTF-8; convert it (iconv -f UTF-16 -t UTF-8)",
    b"\xfe\xff": "is UTF-16, not UTF-8; convert it (iconv -f UTF-16 -t UTF-8)",
    b"BZh": "is compressed with bzip2; compress it with gzip, zstd or xz, or unpack it",
    b"PK\x03\x04": "is a zip archive; unpack it",
    b"PAR1": "is a Parquet file; give it to --input under a name that ends in .parquet",
}


class _Peeked:
    """A stream whose first bytes have been looked at."""

    def __init__(self, stream: IO[bytes], head: bytes) -> None:
        self._stream = stream
        self._head = head
        self.position = 0

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes."""
        if self._head:
            size = len(self._head) if size < 0 else size
            block, self._head = self._head[:size], self._head[size:]
        else:
            block = self._stream.read(size)
        self.position += len(block)
        return block

    def readable(self) -> bool:
        """See `io.RawIOBase`."""
        return True

    def seekable(self) -> bool:
        """See `io.RawIOBase`."""
        return False

    @property
    def closed(self) -> bool:
        """See `io.RawIOBase`."""
        return self._stream.closed

    def close(self) -> None:
        """Nothing: who has opened the stream closes it."""


def _unpacked(stream: _Peeked, head: bytes) -> Any:
    """What `stream` holds, unpacked as its first bytes say."""
    if head.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=stream, mode="rb")  # type: ignore[call-overload]  # reads from anything with read
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        return pa.CompressedInputStream(pa.PythonFile(stream, mode="r"), "zstd")
    if head.startswith(b"\xfd7zXZ\x00"):
        return lzma.LZMAFile(stream, mode="rb")  # type: ignore[arg-type]  # as above
    return stream


def require_file(path: Path, shown: str) -> None:
    """Check that a file can be read.

    Raises:
        InputError: nothing there, a folder, or no permission.
    """
    if path.is_dir():
        raise InputError(f"{shown} is a folder; name a file")
    if not path.exists():
        raise InputError(f"{shown}: there is no such file")
    try:
        path.open("rb").close()
    except PermissionError as error:
        raise InputError(f"{shown} may not be read: {error.strerror}") from error


class TextLines:
    """The lines of a text, a block of bytes at a time; a context manager.

    Attributes:
        shown: the file as the person writes it.
        size: bytes of the file as it is stored; None where that is not known.
        invalid: lines with bytes that are not UTF-8, each of them replaced by U+FFFD.
        first_invalid: number of the first of them, from 1; 0 for none.
        returns: lines that end in CR LF.
        unended: the last line has no line feed.
    """

    def __init__(self, name: str) -> None:
        """Open `name` ('-' is standard input).

        Raises:
            InputError: it cannot be read, or is in a format that is not.
        """
        self.shown = "standard input" if name == "-" else name
        self.invalid = self.first_invalid = self.returns = 0
        self.unended = False
        self.size: int | None = None
        self._ended = False
        self._rest = b""
        self._data = np.zeros(0, dtype=np.uint8)
        self._ends = np.zeros(0, dtype=np.int64)
        self._next = 0  # line of `_ends` to be taken next
        self._before = 0  # lines of earlier blocks
        if name == "-":
            self._file: IO[bytes] = sys.stdin.buffer
        else:
            path = Path(name)
            require_file(path, name)
            self.size = path.stat().st_size if path.is_file() else None
            self._file = path.open("rb")
        head = self._file.read(8)
        for magic, problem in _REFUSED.items():
            if head.startswith(magic):
                raise InputError(f"{self.shown} {problem}")
        self._raw = _Peeked(self._file, head)
        self._stream = _unpacked(self._raw, head)

    def __enter__(self) -> "TextLines":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not sys.stdin.buffer:
            self._file.close()

    def position(self) -> int:
        """Bytes taken in so far, of the file as it is stored."""
        return self._raw.position

    def taken(self) -> int:
        """Lines taken so far."""
        return self._before + self._next

    def ready(self) -> int:
        """Lines that can be taken now; more are read if there are none. 0 at the end.

        Raises:
            InputError: the compressed data is damaged, or a line is longer than any line of text.
        """
        while self._next == len(self._ends) and not self._ended:
            self._read()
        return len(self._ends) - self._next

    def take(self, lines: int) -> tuple[UInt8, Int64]:
        """The next `lines` lines: their bytes, and the end of each (exclusive, with its line feed) in them."""
        first = self._next
        start = int(self._ends[first - 1]) if first else 0
        end = int(self._ends[first + lines - 1])
        self._next += lines
        ends = self._ends[first : first + lines] - start
        return self._data[start:end], ends

    def skip_rest(self) -> None:
        """Take all lines that are left."""
        while lines := self.ready():
            self._next += lines

    def _read(self) -> None:
        """Replace the block, all taken, by the next one."""
        block = self._rest + self._read_bytes()
        if self._before + self._next == 0:
            block = block.removeprefix(_BYTE_ORDER_MARK)
        cut = block.rfind(b"\n") + 1
        if self._ended and cut < len(block):
            self.unended = True
            block += b"\n"
            cut = len(block)
        self._rest = block[cut:]
        if len(self._rest) > LONGEST_LINE:
            raise InputError(
                f"{self.shown}, line {self._before + self._next + 1}: more than {LONGEST_LINE // 2**20} MiB without a "
                "line feed; the text has to be one sentence a line"
            )
        self._before += self._next
        self._next = 0
        self._set_lines(block[:cut])

    def _read_bytes(self) -> bytes:
        try:
            block = bytes(self._stream.read(BLOCK_BYTES))
        except (EOFError, OSError, lzma.LZMAError) as error:
            if self._stream is self._raw:
                raise
            raise InputError(
                f"{self.shown}: the compressed data is damaged or cut short ({error}); copy the file again"
            ) from error
        self._ended = not block
        return block

    def _set_lines(self, block: bytes) -> None:
        try:
            _check_utf8(block)
        except pa.ArrowInvalid:
            block, lines = _repaired(block)
            if not self.first_invalid:
                self.first_invalid = self._before + int(lines[0]) + 1
            self.invalid += len(lines)
        self._data = np.frombuffer(bytearray(block), dtype=np.uint8)  # writable, as the kernels are compiled for
        self._ends = np.flatnonzero(self._data == _LINE_FEED) + 1
        long = self._ends[np.diff(self._ends, prepend=0) > 1]
        self.returns += int(np.count_nonzero(self._data[long - 2] == _RETURN))


def _check_utf8(block: bytes) -> None:
    offsets = pa.py_buffer(np.array([0, len(block)], dtype=np.int32))
    pa.StringArray.from_buffers(1, offsets, pa.py_buffer(block)).validate(full=True)


def _repaired(block: bytes) -> tuple[bytes, Int64]:
    """`block` with U+FFFD for every byte that is not UTF-8, and the lines (from 0) that have one."""
    text = block.decode("utf-8", "surrogateescape").encode("utf-32-le", "surrogatepass")
    points = np.frombuffer(text, dtype=np.uint32).copy()
    bad = (points >= 0xDC80) & (points <= 0xDCFF)
    lines = np.unique(np.searchsorted(np.flatnonzero(points == _LINE_FEED), np.flatnonzero(bad)))
    points[bad] = 0xFFFD
    return points.tobytes().decode("utf-32-le").encode("utf-8"), lines.astype(np.int64)
