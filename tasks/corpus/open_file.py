"""Opening a source's file: plain, gzip or Zstandard by its first bytes, with errors that name the source."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from tasks.contract import InputError

_CODECS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_REFUSED = {
    b"BZh": "is compressed with bzip2; compress it as .gz or .zst, or unpack it",
    b"\xfd7zXZ\x00": "is compressed with xz; compress it as .gz or .zst, or unpack it",
    b"PK\x03\x04": "is a zip archive; unpack it",
    b"\xff\xfe": "is UTF-16, not UTF-8; convert it (iconv -f UTF-16 -t UTF-8)",
    b"\xfe\xff": "is UTF-16, not UTF-8; convert it (iconv -f UTF-16 -t UTF-8)",
}


@dataclass(frozen=True)
class Location:
    """A file of a source.

    Attributes:
        source: name of the source.
        path: the file.
        shown: the file as the configuration writes it.
    """

    source: str
    path: Path
    shown: str

    def error(self, problem: str, line: int | None = None) -> InputError:
        """An error about this file that names source, file and, where there is one, the line."""
        where = f"source {self.source!r}, file {self.shown!r}" + ("" if line is None else f", line {line}")
        return InputError(f"{where}: {problem}")

    @property
    def root(self) -> Path:
        """The data root: the part of `path` before `shown`."""
        depth = len(Path(self.shown).parts)
        fits = self.path.parts[-depth:] == Path(self.shown).parts
        return self.path.parents[depth - 1] if fits else self.path.parent

    def require(self) -> None:
        """Check that the file is there.

        Raises:
            InputError: nothing there, a folder, or no permission to read.
        """
        if self.path.is_dir():
            raise self.error(f"{self.path} is a folder; name a file in it")
        if not self.path.exists():
            raise self.error(
                f"there is no such file under the data root {self.root}; "
                "correct the path, or set the data root with --data-root or LANGADAPT_DATA_ROOT"
            )
        try:
            self.path.open("rb").close()
        except PermissionError as error:
            raise self.error(f"{self.path} may not be read: {error.strerror}") from error


class ByteStream:
    """The unpacked bytes of a file."""

    def __init__(self, location: Location, raw: pa.NativeFile, codec: str | None) -> None:
        self._location = location
        self._raw = raw
        self._codec = codec
        self._stream = raw if codec is None else pa.CompressedInputStream(raw, codec)
        self._unpacked = 0

    def read(self, size: int) -> bytes:
        """At most `size` bytes; none at the end.

        Raises:
            InputError: the compressed data is damaged or cut short.
        """
        if self._codec is None:
            return bytes(self._raw.read(size))
        try:
            block = bytes(self._stream.read(size))
        except OSError as error:
            raise self._location.error(
                f"the {self._codec} data is damaged or cut short after {self._unpacked} unpacked bytes ({error}); "
                "copy or download the file again"
            ) from error
        self._unpacked += len(block)
        return block

    def position(self) -> int:
        """Bytes of the file itself taken in so far."""
        return int(self._raw.tell())


@contextmanager
def open_bytes(location: Location) -> Iterator[ByteStream]:
    """The bytes of a file, unpacked if its first bytes say gzip or Zstandard (its name does not matter).

    Raises:
        InputError: missing, a folder, or in a format that is not read.
    """
    location.require()
    with location.path.open("rb") as file:
        head = file.read(8)
    for magic, problem in _REFUSED.items():
        if head.startswith(magic):
            raise location.error(problem)
    codec = next((name for magic, name in _CODECS.items() if head.startswith(magic)), None)
    with pa.OSFile(str(location.path), "rb") as raw:
        yield ByteStream(location, raw, codec)


@contextmanager
def arrow_errors(location: Location, problem: str) -> Iterator[None]:
    """In this context, Arrow's errors about a file become an `InputError` saying `problem`."""
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise location.error(f"{problem} ({str(error).splitlines()[0]})") from error
