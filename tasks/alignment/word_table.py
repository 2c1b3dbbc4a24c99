"""Words of plain text and their numbers: splitting lines at blanks, and a hash table of byte strings in numpy arrays.

The table gives numbers in the order of first occurrence. Its memory grows with the vocabulary, not with the text: about
25 bytes a word and the word itself.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tasks.alignment.compiled import compiled
from tasks.alignment.growing import grown
from tasks.alignment.links import Int32, Int64
from tasks.contract import InputError

UInt8 = npt.NDArray[np.uint8]
UInt64 = npt.NDArray[np.uint64]

WORD, BLANK, TAB, CONTROL = 0, 1, 2, 4
"""What a byte is; TAB and CONTROL are also the marks of a line that has one."""
_FIRST_SLOTS = 2**16
_MOST_BYTES = 2**31 - 1


def byte_kinds() -> UInt8:
    """What each byte value is: uint8 [256].

    ASCII white space separates words; of it, tabs are told apart because their lines are counted. Other control
    characters (U+0000 to U+001F, U+007F) are part of their word. Everything from 128 on belongs to a character outside
    ASCII and is part of a word, no-break and ideographic spaces included.
    """
    kinds = np.full(256, WORD, dtype=np.uint8)
    kinds[:32] = CONTROL
    kinds[127] = CONTROL
    kinds[[ord(character) for character in " \n\r\v\f"]] = BLANK
    kinds[ord("\t")] = TAB
    return kinds


@compiled
def split_words(
    data: UInt8,
    ends: Int64,
    kinds: UInt8,
    separated: bool,
    words: tuple[Int32, Int32, UInt64],
    lines: tuple[Int32, Int32, Int32, UInt8],
) -> int:
    """Split lines into words and hash them; returns the number of words.

    Args:
        data: uint8 [bytes].
        ends: int64 [n], end of each line (exclusive), ascending; the first begins at 0.
        kinds: see `byte_kinds`.
        separated: words `|||` separate the two sides of a line and are not among the words found.
        words: filled: int32 first byte, int32 bytes, uint64 hash of every word; long enough.
        lines: filled: int32 [n] words before the first separator, after it, separators, uint8 [n] marks.
    """
    starts, lengths, hashes = words
    before, after, separators, marks = lines
    found = 0
    position = 0
    for line in range(len(ends)):
        end = ends[line]
        mark, divided, first_part = 0, 0, found
        middle = found
        while position < end:
            kind = kinds[data[position]]
            if kind == 1 or kind == 2:
                mark |= kind
                position += 1
                continue
            start = position
            value = np.uint64(14695981039346656037)
            while position < end:
                kind = kinds[data[position]]
                if kind == 1 or kind == 2:
                    break
                mark |= kind
                value = (value ^ np.uint64(data[position])) * np.uint64(1099511628211)
                position += 1
            if (
                separated
                and position - start == 3
                and data[start] == 124
                and data[start + 1] == 124
                and data[start + 2] == 124
            ):
                if divided == 0:
                    middle = found
                divided += 1
                continue
            starts[found] = start
            lengths[found] = position - start
            hashes[found] = _mixed(value)
            found += 1
        if divided == 0:
            middle = found
        before[line], after[line], separators[line] = middle - first_part, found - middle, divided
        marks[line] = mark & 6
    return found


@compiled
def _mixed(value: np.uint64) -> np.uint64:
    """The bits of an FNV-1a hash spread over the word."""
    value ^= value >> np.uint64(32)
    value *= np.uint64(0x9E3779B97F4A7C15)
    value ^= value >> np.uint64(29)
    return value


@compiled
def _hash(data: UInt8, start: int, end: int) -> np.uint64:
    value = np.uint64(14695981039346656037)
    for k in range(start, end):
        value = (value ^ np.uint64(data[k])) * np.uint64(1099511628211)
    return _mixed(value)


@compiled
def _intern(
    text: tuple[UInt8, Int32, Int32, UInt64],
    position: int,
    table: tuple[UInt64, UInt8, Int64],
    count: int,
    numbers: Int32,
) -> tuple[int, int]:
    """Number words until all are done or the table is full; returns the next word and the words known.

    Args:
        text: bytes, and first byte, bytes and hash of every word.
        position: the word to begin with.
        table: uint64 slots (upper half: part of the hash; lower half: number + 1; 0 where free; a power of 2 long),
            uint8 bytes and int64 boundaries of the known words.
        count: words known.
        numbers: filled.
    """
    data, starts, lengths, hashes = text
    slots, known, first = table
    mask = np.uint64(len(slots) - 1)
    low = np.uint64(0xFFFFFFFF)
    while position < len(starts):
        size = lengths[position]
        start = starts[position]
        if 2 * count >= len(slots) or count + 1 >= len(first) or first[count] + size > len(known):
            break
        value = hashes[position]
        tag = value & ~low
        slot = value & mask
        while True:
            entry = slots[slot]
            if entry == 0:
                base = first[count]
                for k in range(size):
                    known[base + k] = data[start + k]
                first[count + 1] = base + size
                numbers[position] = count
                count += 1
                slots[slot] = tag | np.uint64(count)
                break
            if entry & ~low == tag:
                number = np.int64(entry & low) - 1
                base = first[number]
                equal = first[number + 1] - base == size
                k = 0
                while equal and k < size:
                    equal = known[base + k] == data[start + k]
                    k += 1
                if equal:
                    numbers[position] = number
                    break
            slot = (slot + np.uint64(1)) & mask
        position += 1
    return position, count


@compiled
def _fill_slots(known: UInt8, first: Int64, count: int, slots: UInt64) -> None:
    mask = np.uint64(len(slots) - 1)
    for number in range(count):
        value = _hash(known, first[number], first[number + 1])
        slot = value & mask
        while slots[slot] != 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = (value & ~np.uint64(0xFFFFFFFF)) | np.uint64(number + 1)


@compiled
def hash_words(data: UInt8, first: Int64, hashes: UInt64) -> None:
    """Fill `hashes` (uint64 [words]) with the hash of every word: bytes `first[k]` to `first[k + 1]` of `data`."""
    for number in range(len(hashes)):
        hashes[number] = _hash(data, first[number], first[number + 1])


class WordTable:
    """Distinct words seen so far, numbered in the order of first occurrence."""

    def __init__(self, name: str, texts: pa.StringArray | None = None) -> None:
        """An empty table, or one that begins with `texts` (distinct words).

        Args:
            name: what the words are, for errors.
            texts: the words that get the first numbers.
        """
        self._name = name
        self._count = 0
        self._known = np.zeros(8 * _FIRST_SLOTS, dtype=np.uint8)
        self._first = np.zeros(_FIRST_SLOTS, dtype=np.int64)
        self._slots = np.zeros(_FIRST_SLOTS, dtype=np.uint64)
        if texts is not None and len(texts):
            self._begin_with(texts)

    def __len__(self) -> int:
        return self._count

    def number(self, data: UInt8, starts: Int32, lengths: Int32, hashes: UInt64) -> Int32:
        """The numbers of words: int32 [W]; new ones are added.

        Args:
            data: uint8 [bytes].
            starts: int32 [W], first byte of each word.
            lengths: int32 [W], bytes of each word.
            hashes: uint64 [W], as `split_words` makes them.

        Raises:
            InputError: the distinct words have more than 2 GiB of text.
        """
        numbers = np.empty(len(starts), dtype=np.int32)
        text = (data, starts, lengths, hashes)
        position = 0
        while True:
            table = (self._slots, self._known, self._first)
            position, self._count = _intern(text, position, table, self._count, numbers)
            if position == len(starts):
                return numbers
            self._grow(int(lengths[position]))

    def _begin_with(self, texts: pa.StringArray) -> None:
        data, first = buffers(texts)
        hashes = np.empty(len(texts), dtype=np.uint64)
        hash_words(data, first, hashes)
        lengths = np.diff(first)
        self.number(data, first[:-1].astype(np.int32), lengths.astype(np.int32), hashes)
        if self._count != len(texts):
            raise InputError(f"{self._name}: {len(texts) - self._count:,} words of the vocabulary are there twice")

    def _grow(self, size: int) -> None:
        """Make room for at least one more word of `size` bytes."""
        used = int(self._first[self._count])
        if used + size > _MOST_BYTES:
            raise InputError(f"{self._name}: the distinct words have more than 2 GiB of text; is this text in words?")
        self._known = grown(self._known, used + size)
        self._first = grown(self._first, self._count + 2)
        if 2 * self._count >= len(self._slots):
            self._slots = np.zeros(2 * len(self._slots), dtype=np.uint64)
            _fill_slots(self._known, self._first, self._count, self._slots)

    def texts(self) -> pa.StringArray:
        """Text of every word, by number."""
        first = self._first[: self._count + 1].astype(np.int32)
        data = self._known[: first[-1]].copy()
        return pa.StringArray.from_buffers(self._count, pa.py_buffer(first), pa.py_buffer(data))


def buffers(texts: pa.StringArray) -> tuple[UInt8, Int64]:
    """The bytes of a string array and int64 [N + 1] boundaries in them; a null is an empty text."""
    if texts.null_count:
        texts = texts.fill_null("")
    offsets = np.frombuffer(texts.buffers()[1], dtype=np.int32)[texts.offset : texts.offset + len(texts) + 1]
    raw = texts.buffers()[2]
    whole = np.zeros(0, dtype=np.uint8) if raw is None else np.frombuffer(raw, dtype=np.uint8)
    data = whole[offsets[0] : offsets[-1]].copy()  # writable, as the kernels are compiled for
    return data, offsets.astype(np.int64) - int(offsets[0])
