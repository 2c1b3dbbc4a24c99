"""Text files that a person gives (word lists, vectors, tables), line by line."""

import io
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from tasks.contract import InputError


def numbered_lines(path: Path, what: str) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 text file, plain, .gz or .zst, without their ends; numbered from 1.

    Args:
        path: the file.
        what: what it is, for errors: "dictionary".

    Raises:
        InputError: it cannot be opened or unpacked, or is not UTF-8.
    """
    number = 0
    try:
        with (
            pa.input_stream(str(path), compression="detect") as raw,
            io.TextIOWrapper(raw, encoding="utf-8-sig", newline="\n") as lines,
        ):
            for number, line in enumerate(lines, start=1):
                yield number, line.rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{what} {path.name}, after line {number}: not UTF-8 ({error.reason}); convert it") from error
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{what} {path.name}, after line {number}: cannot be read: {error}") from error
