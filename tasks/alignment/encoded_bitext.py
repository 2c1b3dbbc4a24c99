"""Parallel text as unit numbers: streamed from Parquet through both tokenizers into flat arrays on disk."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from storage.tables import read_batches, write_table
from tasks.alignment.bitext import Bitext
from tasks.alignment.compiled import compiled
from tasks.alignment.growing import grown
from tasks.alignment.links import Int32, Int64, offsets_from_lengths, parts
from tasks.alignment.unit_encoder import Tokenizer, UnitEncoder
from tasks.alignment.units import Unit, vocabulary
from tasks.alignment.word_texts import word_of_unit
from tasks.contract import InputError
from tasks.pretrained import load_tokenizer

BATCH_ROWS = 8192
BLOCK_TOKENS = 2**22
ONE_CORPUS = "bitext"  # name of the corpus of pairs that name none
SIDES = ("source", "target")
_DONE = "encoded.json"
_DTYPES: dict[str, npt.DTypeLike] = {
    "source": np.int32,
    "target": np.int32,
    "source_lengths": np.int32,
    "target_lengths": np.int32,
    "rows": np.int64,
    "corpus": np.int32,
}


def unit_tokenizer(folder: Path, role: str) -> Tokenizer:
    """What a `UnitEncoder` needs of the tokenizer in a Hugging Face folder.

    Raises:
        InputError: there is none that can be loaded, or it has no fast implementation (no character offsets).
    """
    tokenizer = load_tokenizer(folder, role)
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    return Tokenizer(backend, vocabulary(backend, tokenizer.all_special_ids))


class _Columns:
    """Arrays that grow on disk, one file each; a context manager that closes the files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, BinaryIO] = {}

    def __enter__(self) -> "_Columns":
        self._files = {name: _path(self._folder, name).open("wb") for name in _DTYPES}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self._files.values():
            file.close()

    def append(self, name: str, values: npt.NDArray[Any]) -> None:
        self._files[name].write(np.ascontiguousarray(values, dtype=_DTYPES[name]).data)


def _path(folder: Path, name: str) -> Path:
    return folder / f"{name}.bin"


def _mapped(folder: Path, name: str) -> npt.NDArray[Any]:
    """An array that was written, mapped from its file (changes stay in memory)."""
    return _mapped_file(_path(folder, name), np.dtype(_DTYPES[name]))


def _mapped_file(path: Path, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    if path.stat().st_size == 0:
        return np.zeros(0, dtype=dtype)
    return np.asarray(np.memmap(path, dtype=dtype, mode="c")).view(np.ndarray)


@dataclass(frozen=True)
class Units:
    """The units of one side, by number (in the order of their first occurrence).

    Attributes:
        texts: text of each.
        token_ids: list<int32>, its tokens.
    """

    texts: pa.StringArray
    token_ids: pa.ListArray

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True)
class EncodedBitext:
    """Parallel text as units.

    Attributes:
        bitext: the pairs kept; numbers of units as words.
        rows: int64 [N], row of each pair in the file, counted from 0.
        corpus: int32 [N], index of each pair's corpus in `corpora`.
        corpora: names of the corpora, in the order of their first occurrence in the file.
        source_units: the source side's units.
        target_units: the target side's units.
        read: pairs in the file.
        empty: pairs left out because a side had no unit.
        too_long: pairs left out because a side had more than `max_units`.
    """

    bitext: Bitext
    rows: Int64
    corpus: Int32
    corpora: tuple[str, ...]
    source_units: Units
    target_units: Units
    read: int
    empty: int
    too_long: int


def encode_bitext(
    path: Path,
    tokenizers: Callable[[], tuple[Tokenizer, Tokenizer]],
    folder: Path,
    unit: Unit = "words",
    max_units: int = 200,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> EncodedBitext:
    """Read `path` (columns `source` and `target`, and `corpus` where it has one) as units.

    Memory is bounded by a batch and the two vocabularies. What a run before has finished in `folder` is used again.

    Args:
        path: Parquet file of sentence pairs.
        tokenizers: loads those of the source and of the target side; called only if they are needed.
        folder: where the arrays are written; belongs to this file, these tokenizers and these settings.
        unit: words or tokens.
        max_units: pairs with a longer side are left out.
        report: called with pairs read and pairs in all.

    Raises:
        InputError: no pair is left.
    """
    if not (folder / _DONE).exists():
        folder.mkdir(exist_ok=True)
        _encode(path, tokenizers(), folder, (unit, max_units), report)
    encoded = _load(folder)
    report(encoded.read, encoded.read)
    if not len(encoded.bitext):
        raise InputError(
            f"no sentence pair can be aligned: of {encoded.read:,} training pairs of the bitext, {encoded.empty:,} "
            f"have a side without a word and {encoded.too_long:,} a side of more than alignment.max_words = "
            f"{max_units} units"
        )
    return encoded


def _encode(
    path: Path,
    tokenizers: tuple[Tokenizer, Tokenizer],
    folder: Path,
    limits: tuple[Unit, int],
    report: Callable[[int, int], None],
) -> None:
    unit, max_units = limits
    sides = {name: _Side(UnitEncoder(item, unit)) for name, item in zip(SIDES, tokenizers, strict=True)}
    with pq.ParquetFile(path) as file:
        total = file.metadata.num_rows
        columns = [*SIDES, *(["corpus"] if "corpus" in file.schema_arrow.names else [])]
    corpora: dict[str, int] = {}
    empty_pairs, long_pairs, read = 0, 0, 0
    with _Columns(folder) as written:
        for batch in read_batches(path, columns, BATCH_ROWS):
            found = {name: side.encoder.encode(_texts(batch, name)) for name, side in sides.items()}
            lengths = [found[name][1] for name in SIDES]
            empty = np.minimum(*lengths) == 0
            long = ~empty & (np.maximum(*lengths) > max_units)
            keep = ~(empty | long)
            for name, side in sides.items():
                numbers, sizes = found[name]
                written.append(name, side.renumbered(numbers[np.repeat(keep, sizes)]))
                written.append(f"{name}_lengths", sizes[keep])
            written.append("rows", read + np.flatnonzero(keep))
            written.append("corpus", _corpus_numbers(batch, corpora)[keep])
            read += batch.num_rows
            empty_pairs, long_pairs = empty_pairs + int(empty.sum()), long_pairs + int(long.sum())
            report(read, total)
    for name, side in sides.items():
        write_table(side.units(), folder / f"{name}_units.parquet")
    figures = {"read": read, "empty": empty_pairs, "too_long": long_pairs, "corpora": list(corpora)}
    _write_marker(folder, figures)


def _texts(batch: pa.RecordBatch, name: str) -> pa.StringArray:
    return batch.column(name).cast(pa.string()).fill_null("")


def _corpus_numbers(batch: pa.RecordBatch, known: dict[str, int]) -> Int32:
    """The number of each row's corpus; new names are added to `known`."""
    if "corpus" not in batch.schema.names:
        known.setdefault(ONE_CORPUS, 0)
        return np.zeros(batch.num_rows, dtype=np.int32)
    encoded = batch.column("corpus").cast(pa.string()).fill_null(ONE_CORPUS).dictionary_encode()
    numbers = [known.setdefault(name, len(known)) for name in encoded.dictionary.to_pylist()]
    of_row: Int32 = np.array(numbers, dtype=np.int32)[encoded.indices.to_numpy(zero_copy_only=False)]
    return of_row


@compiled
def _renumber(numbers: Int32, new: Int32, old: Int32, count: int) -> int:
    """Replace numbers by new ones in the order of first occurrence; returns how many there are.

    Args:
        numbers: int32 [tokens], changed.
        new: int32 [old numbers], the new number or -1; filled.
        old: int32, the old number of each new one; filled.
        count: new numbers given so far.
    """
    for k in range(len(numbers)):
        number = numbers[k]
        if new[number] < 0:
            new[number] = count
            old[count] = number
            count += 1
        numbers[k] = new[number]
    return count


class _Side:
    """One side: its encoder, and numbers for the units of the pairs that are kept."""

    def __init__(self, encoder: UnitEncoder) -> None:
        self.encoder = encoder
        self._new = np.zeros(0, dtype=np.int32)
        self._old = np.zeros(0, dtype=np.int32)
        self._count = 0
        self._known = 0

    def renumbered(self, numbers: Int32) -> Int32:
        """The numbers of units of kept pairs: int32 [tokens], those of the encoder replaced in place."""
        size = len(self.encoder.table)
        self._new, self._old = grown(self._new, size), grown(self._old, size)
        self._new[self._known : size] = -1
        self._known = size
        self._count = _renumber(numbers, self._new, self._old, self._count)
        return numbers

    def units(self) -> pa.Table:
        """Text and token ids of every unit, by its number."""
        order = pa.array(self._old[: self._count])
        table = self.encoder.table
        return pa.table({"text": table.texts().take(order), "token_ids": table.token_ids().take(order)})


def _write_marker(folder: Path, figures: Mapping[str, Any]) -> None:
    temporary = folder / f"{_DONE}.tmp"
    temporary.write_text(json.dumps(figures))
    temporary.replace(folder / _DONE)


def _load(folder: Path) -> EncodedBitext:
    figures = json.loads((folder / _DONE).read_text())
    arrays = {name: _mapped(folder, name) for name in _DTYPES}
    tables = [pq.read_table(folder / f"{name}_units.parquet").combine_chunks() for name in SIDES]
    units = [Units(_only(table.column("text")), _only(table.column("token_ids"))) for table in tables]
    bitext = Bitext(
        source=arrays["source"],
        source_offsets=offsets_from_lengths(arrays["source_lengths"]),
        target=arrays["target"],
        target_offsets=offsets_from_lengths(arrays["target_lengths"]),
        source_words=len(units[0]),
        target_words=len(units[1]),
    )
    return EncodedBitext(
        bitext=bitext,
        rows=arrays["rows"],
        corpus=arrays["corpus"],
        corpora=tuple(figures["corpora"]),
        source_units=units[0],
        target_units=units[1],
        read=figures["read"],
        empty=figures["empty"],
        too_long=figures["too_long"],
    )


def _only(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])


def lowercased(bitext: Bitext, source: pa.StringArray, target: pa.StringArray, folder: Path) -> Bitext:
    """The same pairs with one word for all units whose texts are equal in lower case; arrays go into `folder`."""
    keys = [word_of_unit(texts) for texts in (source, target)]
    paths = [folder / f"{name}.lowercase.bin" for name in SIDES]
    for path, key, units in zip(paths, keys, (bitext.source, bitext.target), strict=True):
        with path.open("wb") as file:
            for start, end in parts(len(units), BLOCK_TOKENS):
                file.write(key[units[start:end]].data)
    return Bitext(
        source=_mapped_file(paths[0], np.dtype(np.int32)),
        source_offsets=bitext.source_offsets,
        target=_mapped_file(paths[1], np.dtype(np.int32)),
        target_offsets=bitext.target_offsets,
        source_words=int(keys[0].max()) + 1,
        target_words=int(keys[1].max()) + 1,
    )


def frequencies(numbers: Int32, size: int) -> Int64:
    """How often each of the numbers below `size` occurs: int64 [size]."""
    total = np.zeros(size, dtype=np.int64)
    for start, end in parts(len(numbers), BLOCK_TOKENS):
        total += np.bincount(numbers[start:end], minlength=size)
    return total
