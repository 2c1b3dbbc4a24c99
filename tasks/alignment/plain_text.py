"""Parallel text in white-space separated words as word numbers, streamed into arrays on disk."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tasks.alignment.bitext import Bitext
from tasks.alignment.links import Int32, Int64
from tasks.alignment.text_lines import TextLines, UInt8, require_file
from tasks.alignment.word_table import CONTROL, TAB, UInt64, WordTable, buffers, byte_kinds, split_words
from tasks.contract import InputError

PARQUET_ROWS = 16_384
EMPTY, LONG, UNDIVIDED, DIVIDED_TWICE, TABS, CONTROLS = range(6)
_KINDS = byte_kinds()
SIDES = ("source", "target")

Report = Callable[[int, float | None], None]
"""Called with the pairs read and the share of the input that is read (None: not known)."""


@dataclass(frozen=True)
class TextInput:
    """Where parallel text comes from: two line-aligned files, or one file.

    Attributes:
        source: source side, with `target`.
        target: target side.
        both: one file with `source ||| target` in a line, '-' for standard input, or a Parquet file (name ends in
            .parquet) with the columns `source` and `target`; instead of the other two.
        max_words: pairs with a longer side are left out.
        lowercase: words are lower-cased.
    """

    source: str | None = None
    target: str | None = None
    both: str | None = None
    max_words: int = 1000
    lowercase: bool = False


@dataclass(frozen=True)
class TextBitext:
    """Parallel text as word numbers.

    Attributes:
        bitext: the pairs that can be aligned; arrays mapped from files.
        rows: int64 [N], line of each pair, counted from 0; mapped from a file.
        words: text of every word of the source and of the target side, in the order of first occurrence among the
            pairs that can be aligned (after those of the vocabularies given, if any).
        read: lines read.
        left_out: how many lines cannot be aligned.
        notes: what was found in the text that a person should know, one sentence each.
    """

    bitext: Bitext
    rows: Int64
    words: tuple[pa.StringArray, pa.StringArray]
    read: int
    left_out: int
    notes: tuple[str, ...]


@dataclass
class _Tally:
    """How many lines have each property, and the first of them (from 1)."""

    counts: Int64 = field(default_factory=lambda: np.zeros(6, dtype=np.int64))
    first: Int64 = field(default_factory=lambda: np.zeros(6, dtype=np.int64))

    def add(self, what: int, lines: npt.NDArray[np.bool_], before: int) -> None:
        found = int(np.count_nonzero(lines))
        if found and not self.counts[what]:
            self.first[what] = before + int(lines.argmax()) + 1
        self.counts[what] += found


@dataclass(frozen=True)
class _Block:
    """n lines of one side, or of both sides at once."""

    data: UInt8
    ends: Int64


@dataclass(frozen=True)
class _Words:
    """The words of n lines of a side: their bytes, spans and hashes, and int32 [n] words of each line."""

    data: UInt8
    spans: tuple[Int32, Int32, UInt64]
    lengths: Int32

    def of_lines(self, keep: npt.NDArray[np.bool_]) -> "_Words":
        if keep.all():
            return self
        kept = np.repeat(keep, self.lengths)
        starts, sizes, hashes = self.spans
        return _Words(self.data, (starts[kept], sizes[kept], hashes[kept]), self.lengths[keep])


def _split(block: _Block, separated: bool) -> tuple[list[_Words], Int32, UInt8]:
    """The words of one side or, if `separated`, of two; int32 [n] separators and uint8 [n] marks of each line."""
    size, count = len(block.data) // 2 + 1, len(block.ends)
    words = (np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.uint64))
    before, after, separators = (np.empty(count, dtype=np.int32) for _ in range(3))
    marks = np.empty(count, dtype=np.uint8)
    found = split_words(block.data, block.ends, _KINDS, separated, words, (before, after, separators, marks))
    starts, sizes, hashes = words[0][:found], words[1][:found], words[2][:found]
    if not separated:
        return [_Words(block.data, (starts, sizes, hashes), before)], separators, marks
    runs = np.stack([before, after], axis=1).ravel()
    first_side = np.repeat(np.tile([True, False], count), runs)
    sides = [
        _Words(block.data, (starts[mask], sizes[mask], hashes[mask]), lengths)
        for mask, lengths in ((first_side, before), (~first_side, after))
    ]
    return sides, separators, marks


class _Files:
    """The arrays of a bitext, growing on disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, BinaryIO] = {}
        self._totals = dict.fromkeys(SIDES, 0)
        for name in SIDES:
            self._append(f"{name}_offsets", np.zeros(1, dtype=np.int64))

    def _append(self, name: str, values: npt.NDArray[Any]) -> None:
        if name not in self._files:
            self._files[name] = (self._folder / f"{name}.bin").open("wb")
        self._files[name].write(np.ascontiguousarray(values).data)

    def add(self, rows: Int64, numbers: Sequence[Int32], lengths: Sequence[Int32]) -> None:
        """Append pairs: their rows, and of each side the words' numbers and the words of each pair."""
        self._append("rows", rows)
        for name, words, sizes in zip(SIDES, numbers, lengths, strict=True):
            self._append(name, words)
            offsets = self._totals[name] + np.cumsum(sizes, dtype=np.int64)
            self._append(f"{name}_offsets", offsets)
            self._totals[name] += len(words)

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()

    def mapped(self, name: str, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """An array, mapped from its file (changes stay in memory)."""
        path = self._folder / f"{name}.bin"
        if not path.exists() or path.stat().st_size == 0:
            return np.zeros(0, dtype=dtype)
        return np.asarray(np.memmap(path, dtype=dtype, mode="c")).view(np.ndarray)


class _Encoder:
    """Turns blocks of lines into pairs of word numbers."""

    def __init__(self, text: TextInput, files: _Files, tables: tuple[WordTable, WordTable], threads: int) -> None:
        self._text = text
        self._files = files
        self._tables = tables
        self._pool = ThreadPoolExecutor(2) if threads != 1 else None
        self.tally = _Tally()
        self.read = self.left_out = 0

    def _map(self, function: Callable[..., Any], *arguments: Sequence[Any]) -> list[Any]:
        """`function` of the two sides, at once where there are two threads (the kernels release the lock)."""
        return list(map(function, *arguments) if self._pool is None else self._pool.map(function, *arguments))

    def add(self, blocks: Sequence[_Block]) -> None:
        """Add n lines: one block with separators in it, or one of each side."""
        if self._text.lowercase:
            blocks = self._map(_lowercased, blocks)
        results = self._map(lambda block: _split(block, len(blocks) == 1), blocks)
        sides: list[_Words] = [side for result in results for side in result[0]]
        marks = np.bitwise_or.reduce([result[2] for result in results])
        keep = self._keep(sides, None if len(blocks) == 2 else results[0][1])
        self.tally.add(TABS, marks & TAB != 0, self.read)
        self.tally.add(CONTROLS, marks & CONTROL != 0, self.read)
        kept = [side.of_lines(keep) for side in sides]
        numbers = self._map(lambda table, side: table.number(side.data, *side.spans), self._tables, kept)
        self._files.add(self.read + np.flatnonzero(keep), numbers, [side.lengths for side in kept])
        self.read += len(keep)
        self.left_out += len(keep) - int(keep.sum())

    def _keep(self, sides: Sequence[_Words], separators: Int32 | None) -> npt.NDArray[np.bool_]:
        """Which lines can be aligned: bool [n]; the others are counted."""
        shorter = np.minimum(sides[0].lengths, sides[1].lengths)
        longer = np.maximum(sides[0].lengths, sides[1].lengths)
        good = np.ones(len(shorter), dtype=bool)
        blank = longer == 0
        if separators is not None:
            good = separators == 1
            self.tally.add(UNDIVIDED, (separators == 0) & ~blank, self.read)
            self.tally.add(DIVIDED_TWICE, separators > 1, self.read)
            blank &= separators == 0
        self.tally.add(EMPTY, blank | (good & (shorter == 0)), self.read)
        self.tally.add(LONG, good & (shorter > 0) & (longer > self._text.max_words), self.read)
        return good & (shorter > 0) & (longer <= self._text.max_words)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()


def _lowercased(block: _Block) -> _Block:
    """The same lines in lower case (characters one by one, without regard to language or neighbours)."""
    if not len(block.ends):
        return block
    offsets = np.concatenate([[0], block.ends]).astype(np.int32)
    lines = pa.StringArray.from_buffers(len(block.ends), pa.py_buffer(offsets), pa.py_buffer(block.data))
    data, first = buffers(pc.utf8_lower(lines))
    return _Block(data, first[1:])


def read_text(
    text: TextInput,
    folder: Path,
    vocabulary: tuple[pa.StringArray, pa.StringArray] | None = None,
    threads: int = 0,
    report: Report = lambda pairs, share: None,
) -> TextBitext:
    """Read parallel text; memory is bounded by a block of it and the two vocabularies.

    Words are what stands between ASCII white space. A line that cannot be aligned (an empty side, more than `max_words`
    words on a side, in one file no separator or more than one) is left out and counted.

    Args:
        text: what to read, and how.
        folder: where the arrays are written.
        vocabulary: words that get the first numbers; words not among them get numbers after them.
        threads: 1 for one thread; the result is the same.
        report: receiver of progress.

    Raises:
        InputError: an input cannot be read, or the two files have different numbers of lines.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = _Files(folder)
    given = (None, None) if vocabulary is None else vocabulary
    tables = (WordTable("source side", given[0]), WordTable("target side", given[1]))
    encoder = _Encoder(text, files, tables, threads)
    notes: list[str] = []
    try:
        for blocks, share in _blocks(text, notes):
            encoder.add(blocks)
            report(encoder.read, share)
    finally:
        encoder.close()
        files.close()
    words = (tables[0].texts(), tables[1].texts())
    bitext = Bitext(
        source=files.mapped("source", np.int32),
        source_offsets=files.mapped("source_offsets", np.int64),
        target=files.mapped("target", np.int32),
        target_offsets=files.mapped("target_offsets", np.int64),
        source_words=len(tables[0]),
        target_words=len(tables[1]),
    )
    notes[:0] = _sentences(encoder.tally, encoder.read, encoder.left_out, text.max_words)
    return TextBitext(bitext, files.mapped("rows", np.int64), words, encoder.read, encoder.left_out, tuple(notes))


def _blocks(text: TextInput, notes: list[str]) -> Iterator[tuple[list[_Block], float | None]]:
    """Blocks of the same lines of each input, with the share read; at the end `notes` about the files are added."""
    if text.both is None:
        if text.source is None or text.target is None:
            raise InputError("parallel text is either two files, source and target, or one input")
        return _two_files(text.source, text.target, notes)
    if text.both.endswith(".parquet"):
        return _parquet(text.both)
    return _one_file(text.both, notes)


def _one_file(name: str, notes: list[str]) -> Iterator[tuple[list[_Block], float | None]]:
    with TextLines(name) as lines:
        while count := lines.ready():
            yield [_Block(*lines.take(count))], _share(lines)
        notes.extend(_file_notes(lines))


def _two_files(source: str, target: str, notes: list[str]) -> Iterator[tuple[list[_Block], float | None]]:
    if source == target == "-":
        raise InputError("source and target cannot both be standard input; use --input for both sides in one file")
    with TextLines(source) as first, TextLines(target) as second:
        while count := min(first.ready(), second.ready()):
            yield [_Block(*first.take(count)), _Block(*second.take(count))], _share(first)
        first.skip_rest()
        second.skip_rest()
        if first.taken() != second.taken():
            raise InputError(
                f"{first.shown} has {first.taken():,} lines and {second.shown} {second.taken():,}: line n of one has "
                "to be the translation of line n of the other"
            )
        notes.extend(_file_notes(first) + _file_notes(second))


def _parquet(name: str) -> Iterator[tuple[list[_Block], float | None]]:
    path = Path(name)
    require_file(path, name)
    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{name} is no readable Parquet file ({str(error).splitlines()[0]})") from error
    with file:
        missing = [column for column in SIDES if column not in file.schema_arrow.names]
        if missing:
            names = ", ".join(file.schema_arrow.names)
            raise InputError(f"{name} has no column {' and no column '.join(missing)}; its columns are: {names}")
        total, done = file.metadata.num_rows, 0
        for batch in file.iter_batches(PARQUET_ROWS, columns=list(SIDES)):
            done += batch.num_rows
            yield [_block_of(batch.column(column), name, column) for column in SIDES], done / total


def _block_of(column: pa.Array, name: str, label: str) -> _Block:
    try:
        data, first = buffers(column.cast(pa.string()))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(f"{name}: the column {label} is {column.type}, not text ({error})") from error
    return _Block(data, first[1:])


def _share(lines: TextLines) -> float | None:
    return None if not lines.size else min(1.0, lines.position() / lines.size)


def _file_notes(lines: TextLines) -> list[str]:
    notes = []
    if lines.invalid:
        notes.append(
            f"{lines.shown}: bytes that are not UTF-8 in {lines.invalid:,} line(s), each replaced by U+FFFD "
            f"(the first is line {lines.first_invalid:,})"
        )
    if lines.returns:
        notes.append(f"{lines.shown}: {lines.returns:,} line(s) end in CR LF; the CR is not part of a word")
    if lines.unended:
        notes.append(f"{lines.shown}: the last line has no line feed; it is read as a line all the same")
    return notes


def _sentences(tally: _Tally, read: int, left_out: int, max_words: int) -> list[str]:
    """What was found in the lines, in words."""

    def lines(what: int) -> str:
        if tally.counts[what] == 1:
            return f"line {tally.first[what]:,}"
        return f"{tally.counts[what]:,} lines (the first is line {tally.first[what]:,})"

    reasons = {
        EMPTY: "a side without a word",
        LONG: f"a side of more than {max_words:,} words",
        UNDIVIDED: "no separator ` ||| `",
        DIVIDED_TWICE: "more than one separator ` ||| `",
    }
    notes = [f"{lines(what)} left out: {reason}" for what, reason in reasons.items() if tally.counts[what]]
    if left_out:
        notes.append(f"{left_out:,} of {read:,} lines left out in all; their lines of links are empty")
    if tally.counts[TABS]:
        notes.append(f"a tab in {lines(TABS)}, which separates words as a space does")
    if tally.counts[CONTROLS]:
        notes.append(f"control characters in {lines(CONTROLS)}, which are part of their word")
    return notes
