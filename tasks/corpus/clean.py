"""Cleaning of text, a batch at a time, on arrays of code points."""

import unicodedata
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tasks.corpus.code_points import INVISIBLE, LETTER, NUL, SPACE, WANTED_LETTER, Classes
from tasks.corpus.records import Integers, Mask

_END = 10

CodePoints = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Cleaned:
    """Cleaned texts and what the filters ask about them.

    Attributes:
        texts: string array [n].
        characters: int64 [n], length in code points.
        letters: int64 [n], letters of any script but Common and Inherited.
        wanted_letters: int64 [n], those of the wanted scripts.
        has_nul: bool [n], the text as read contained NUL.
    """

    texts: pa.Array
    characters: Integers
    letters: Integers
    wanted_letters: Integers
    has_nul: Mask


def clean(texts: pa.Array, classes: Classes) -> Cleaned:
    """Texts in Unicode normalization form C, without invisible characters, white space collapsed and stripped.

    White space is Unicode's property White_Space (tabs, line ends and no-break spaces included); every run becomes one
    space. What is invisible: see `code_points.class_table`.

    Args:
        texts: string array [n] without nulls, valid UTF-8.
        classes: uint8 [0x110000], from `class_table`.
    """
    count = len(texts)
    if count == 0:
        none = np.empty(0, dtype=np.int64)
        return Cleaned(pa.array([], pa.string()), none, none, none, np.empty(0, dtype=bool))
    points = _code_points(_joined(texts))
    ends = _ends(texts, points)
    kinds = classes[points]
    has_nul = _rows_with(kinds == NUL, ends, count)
    points = _collapsed(points, kinds, ends)
    string = points.tobytes().decode("utf-32-le")
    composed = unicodedata.normalize("NFC", string)
    points = _code_points(composed.encode("utf-8")) if composed != string else points
    kinds = classes[points]
    ends = np.flatnonzero(points == _END)
    starts = np.concatenate([np.zeros(1, dtype=np.int64), ends[:-1] + 1])
    return Cleaned(
        _split(composed.encode("utf-8"), count),
        ends - starts,
        _count(kinds >= LETTER, starts),
        _count(kinds == WANTED_LETTER, starts),
        has_nul,
    )


def _joined(texts: pa.Array) -> bytes:
    r"""All texts in one piece of UTF-8, each followed by "\n"."""
    ended = pc.binary_join_element_wise(texts, "", "\n")
    buffer, offsets = ended.buffers()[2], _offsets(ended)
    return bytes(memoryview(buffer)[offsets[0] : offsets[-1]])


def _offsets(texts: pa.Array) -> Integers:
    offsets = np.frombuffer(texts.buffers()[1], dtype=np.int32)
    return offsets[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)


def _code_points(utf8: bytes) -> CodePoints:
    return np.frombuffer(bytearray(utf8.decode("utf-8").encode("utf-32-le")), dtype=np.uint32)


def _ends(texts: pa.Array, points: CodePoints) -> Integers:
    """Index of every text's terminator in `points`."""
    lengths = pc.utf8_length(texts).to_numpy(zero_copy_only=False).astype(np.int64)
    return np.asarray(np.cumsum(lengths + 1) - 1, dtype=np.int64)


def _rows_with(found: Mask, ends: Integers, count: int) -> Mask:
    rows = np.zeros(count, dtype=bool)
    if found.any():
        rows[np.searchsorted(ends, np.flatnonzero(found))] = True
    return rows


def _collapsed(points: CodePoints, kinds: Classes, ends: Integers) -> CodePoints:
    """`points` without invisible characters, with runs of white space as one space, none at a text's start or end."""
    points[kinds == SPACE] = 32
    points[ends] = _END
    visible = (kinds != INVISIBLE) & (kinds != NUL)
    if not visible.all():
        points = points[visible]
    # A space stays if what follows is neither a space nor an end (the last of a run), and its run has something before.
    blank = points == 32
    end = points == _END
    stays = ~blank
    stays[:-1] |= ~(blank | end)[1:]
    points = points[stays] if not stays.all() else points
    starts = np.concatenate([np.zeros(1, dtype=np.int64), np.flatnonzero(points == _END)[:-1] + 1])
    leading = starts[points[starts] == 32]
    return np.delete(points, leading) if len(leading) else points


def _split(utf8: bytes, count: int) -> pa.Array:
    r"""The texts of one piece of UTF-8 in which each is followed by "\n", as a string array [count]."""
    ends = np.flatnonzero(np.frombuffer(utf8, dtype=np.uint8) == _END)
    offsets = np.zeros(count + 1, dtype=np.int32)
    offsets[1:] = ends - np.arange(count)
    data = utf8.replace(b"\n", b"")
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _count(found: Mask, starts: Integers) -> Integers:
    return np.add.reduceat(found.view(np.uint8), starts, dtype=np.int32).astype(np.int64)
