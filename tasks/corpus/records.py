"""What every reader yields: rows of raw text with their line numbers, and the rows that could not be read."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

MAX_TEXT_BYTES = 4 * 1024 * 1024
EXAMPLE_CHARACTERS = 200

Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

BAD_SCHEMA = pa.schema([("line", pa.int64()), ("size", pa.int64()), ("reason", pa.string()), ("example", pa.string())])


@dataclass(frozen=True)
class Column:
    """One side of a batch as it was read.

    Attributes:
        texts: binary or string array [rows], null where there is no text; of an over-long text, its head is enough.
        sizes: int64 [rows], the whole text's length in bytes, which `texts` may have been cut from.
    """

    texts: pa.Array
    sizes: Integers


@dataclass(frozen=True)
class Records:
    """A batch of a source.

    Attributes:
        rows: line int64 (counted from 1), size int64 (bytes as read), then one string column a side, valid UTF-8.
        bad: rows that could not be read: line, size, reason, example (`BAD_SCHEMA`).
        position: bytes of the source's files taken in so far, 0 where not known.
    """

    rows: pa.RecordBatch
    bad: pa.RecordBatch
    position: int = 0


def row_schema(names: Sequence[str]) -> pa.Schema:
    """The schema of `Records.rows` with the text columns `names`."""
    return pa.schema([("line", pa.int64()), ("size", pa.int64()), *((name, pa.string()) for name in names)])


def checked(lines: Integers, columns: Sequence[Column], names: Sequence[str], position: int = 0) -> Records:
    """The rows whose texts are there, of bearable length and valid UTF-8; the others as bad rows.

    Args:
        lines: int64 [rows], line numbers counted from 1.
        columns: the sides.
        names: the sides' names in the answer.
        position: handed on.
    """
    sizes = np.sum([column.sizes for column in columns], axis=0, dtype=np.int64)
    reasons = {
        "missing-text": _any([_nulls(column.texts) for column in columns]),
        "too-long": _any([column.sizes > MAX_TEXT_BYTES for column in columns]),
    }
    binary = [column.texts.cast(pa.binary()) for column in columns]
    reasons["invalid-utf8"] = _any([invalid_utf8(texts) for texts in binary])
    good = np.ones(len(lines), dtype=bool)
    bad = []
    for reason, found in reasons.items():
        found &= good
        if found.any():
            good &= ~found
            picked = np.flatnonzero(found)
            bad.append(bad_rows(lines[picked], sizes[picked], reason, [texts.take(picked) for texts in binary]))
    if good.all():
        kept = [texts.cast(pa.string()) for texts in binary]
    else:
        mask = pa.array(good)
        lines, sizes = lines[good], sizes[good]
        kept = [texts.filter(mask).cast(pa.string()) for texts in binary]
    rows = pa.RecordBatch.from_arrays([pa.array(lines), pa.array(sizes), *kept], schema=row_schema(names))
    return Records(rows, join_bad(bad), position)


def bad_rows(lines: Integers, sizes: Integers, reason: str, texts: Sequence[pa.Array]) -> pa.RecordBatch:
    """Rows rejected for one `reason`, with examples made from the sides' `texts` (binary or string)."""
    examples = [example([text.as_py() for text in row]) for row in zip(*texts, strict=True)]
    return pa.RecordBatch.from_pydict(
        {"line": lines, "size": sizes, "reason": [reason] * len(lines), "example": examples}, schema=BAD_SCHEMA
    )


def join_bad(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Bad rows of several reasons as one batch."""
    return pa.concat_batches(batches) if batches else pa.RecordBatch.from_pylist([], schema=BAD_SCHEMA)


def example(sides: Sequence[bytes | str | None]) -> str:
    """What a person is shown of a rejected row: at most 200 characters, control characters made visible."""
    texts = []
    for side in sides:
        head = (side or "")[: 4 * EXAMPLE_CHARACTERS]
        texts.append(head.decode("utf-8", "replace") if isinstance(head, bytes) else head)
    shown = " ||| ".join(text.rstrip("\r\n") for text in texts)[:EXAMPLE_CHARACTERS]
    return shown.translate(_VISIBLE)


def text_sizes(texts: pa.Array) -> Integers:
    """Length of every text in bytes, int64 [rows]; 0 for null."""
    lengths = pc.fill_null(pc.binary_length(texts), 0)
    return np.asarray(lengths.to_numpy(zero_copy_only=False), dtype=np.int64)


def invalid_utf8(texts: pa.Array) -> Mask:
    """Which texts of a binary array are not valid UTF-8, bool [rows]."""
    try:
        texts.cast(pa.string())
        return np.zeros(len(texts), dtype=bool)
    except pa.ArrowInvalid:
        return np.fromiter((not _is_utf8(text) for text in texts.to_pylist()), dtype=bool, count=len(texts))


def _is_utf8(text: bytes | None) -> bool:
    try:
        (text or b"").decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _nulls(texts: pa.Array) -> Mask:
    return np.asarray(texts.is_null().to_numpy(zero_copy_only=False), dtype=bool)


def _any(masks: Sequence[Mask]) -> Mask:
    return np.asarray(np.logical_or.reduce(masks), dtype=bool)


# Control characters as their pictures (U+2400 block): NUL is shown as ␀.
_VISIBLE = {**{code: 0x2400 + code for code in range(32)}, 0x7F: 0x2421, **dict.fromkeys(range(0x80, 0xA0), 0xFFFD)}
