"""Parallel text as unit numbers: streamed from Parquet through both tokenizers into flat arrays on disk."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import pyarrow.parquet as pq

from storage.tables import read_batches
from tasks.alignment.cells import Bitext
from tasks.alignment.links import Int32, Int64, offsets_from_lengths
from tasks.alignment.unit_table import UnitTable
from tasks.alignment.units import Unit, Vocabulary, encode, units, vocabulary
from tasks.contract import InputError

BATCH_ROWS = 8192
_DTYPES: dict[str, npt.DTypeLike] = {
    "source": np.int32,
    "target": np.int32,
    "source_lengths": np.int32,
    "target_lengths": np.int32,
    "rows": np.int64,
}


@dataclass(frozen=True)
class Tokenizer:
    """A fast tokenizer and what the unit rule needs of its vocabulary."""

    backend: Any
    vocabulary: Vocabulary


def load_tokenizer(folder: Path) -> Tokenizer:
    """The fast tokenizer of a Hugging Face folder, as `AutoTokenizer` loads it.

    Raises:
        InputError: there is none that can be loaded, or it has no fast implementation (no character offsets).
    """
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder), use_fast=True)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"no tokenizer can be loaded from {folder}: {error}") from error
    if not tokenizer.is_fast:
        raise InputError(
            f"the tokenizer in {folder} ({type(tokenizer).__name__}) has no fast implementation, so it gives no "
            "character offsets; convert it to a tokenizer.json"
        )
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    return Tokenizer(backend, vocabulary(backend, tokenizer.all_special_ids))


class _Columns:
    """Arrays that grow on disk, one file each; a context manager that closes the files."""

    def __init__(self, folder: Path, dtypes: Mapping[str, npt.DTypeLike]) -> None:
        self._dtypes = {name: np.dtype(dtype) for name, dtype in dtypes.items()}
        self._paths = {name: folder / f"{name}.bin" for name in dtypes}
        self._files: dict[str, BinaryIO] = {}

    def __enter__(self) -> "_Columns":
        self._files = {name: path.open("wb") for name, path in self._paths.items()}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self._files.values():
            file.close()

    def append(self, name: str, values: npt.NDArray[Any]) -> None:
        self._files[name].write(np.ascontiguousarray(values, dtype=self._dtypes[name]).data)

    def mapped(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays, mapped from the closed files (changes stay in memory)."""
        return {name: _mapped(path, self._dtypes[name]) for name, path in self._paths.items()}


def _mapped(path: Path, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    if path.stat().st_size == 0:
        return np.zeros(0, dtype=dtype)
    return np.asarray(np.memmap(path, dtype=dtype, mode="c")).view(np.ndarray)


@dataclass(frozen=True)
class EncodedBitext:
    """Parallel text as units.

    Attributes:
        bitext: the pairs kept; numbers of units as words.
        rows: int64 [N], row of each pair in the file, counted from 0.
        source_units: the source side's units.
        target_units: the target side's units.
        read: pairs in the file.
        empty: pairs left out because a side had no unit.
        too_long: pairs left out because a side had more than `max_units`.
    """

    bitext: Bitext
    rows: Int64
    source_units: UnitTable
    target_units: UnitTable
    read: int
    empty: int
    too_long: int


def encode_bitext(
    path: Path,
    tokenizers: tuple[Tokenizer, Tokenizer],
    folder: Path,
    unit: Unit = "words",
    max_units: int = 200,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> EncodedBitext:
    """Read `path` (columns `source` and `target`) as units; memory is bounded by a batch and the two vocabularies.

    Args:
        path: Parquet file of sentence pairs.
        tokenizers: of the source and of the target side.
        folder: where the arrays are written.
        unit: words or tokens.
        max_units: pairs with a longer side are left out.
        report: called with pairs read and pairs in all.

    Raises:
        InputError: no pair is left.
    """
    tables = (UnitTable(), UnitTable())
    with pq.ParquetFile(path) as file:
        total = file.metadata.num_rows
    left_out = np.zeros(2, dtype=np.int64)
    read = 0
    with _Columns(folder, _DTYPES) as columns:
        for batch in read_batches(path, ["source", "target"], BATCH_ROWS):
            texts = [batch.column(name).fill_null("").to_pylist() for name in ("source", "target")]
            sides = [
                units(encode(tokenizer.backend, text, tokenizer.vocabulary), tokenizer.vocabulary, len(text), unit)
                for text, tokenizer in zip(texts, tokenizers, strict=True)
            ]
            empty = np.minimum(sides[0].lengths, sides[1].lengths) == 0
            long = ~empty & (np.maximum(sides[0].lengths, sides[1].lengths) > max_units)
            keep = ~(empty | long)
            for name, side, text, table in zip(("source", "target"), sides, texts, tables, strict=True):
                columns.append(name, table.number(side.of_sentences(keep), "".join(text)))
                columns.append(f"{name}_lengths", side.lengths[keep])
            columns.append("rows", read + np.flatnonzero(keep))
            read += batch.num_rows
            left_out += (int(empty.sum()), int(long.sum()))
            report(read, total)
    if read == left_out.sum():
        raise InputError(
            f"no sentence pair can be aligned: of {read:,} training pairs of the bitext, {left_out[0]:,} have a side "
            f"without a word and {left_out[1]:,} a side of more than alignment.max_words = {max_units} units"
        )
    arrays = columns.mapped()
    bitext = Bitext(
        source=arrays["source"],
        source_offsets=offsets_from_lengths(arrays["source_lengths"]),
        target=arrays["target"],
        target_offsets=offsets_from_lengths(arrays["target_lengths"]),
        source_words=len(tables[0]),
        target_words=len(tables[1]),
    )
    return EncodedBitext(bitext, arrays["rows"], *tables, read, int(left_out[0]), int(left_out[1]))


def lowercased(bitext: Bitext, source: UnitTable, target: UnitTable) -> Bitext:
    """The same pairs with one word for all units whose texts are equal in lower case."""
    keys = [_lower_keys(table) for table in (source, target)]
    return Bitext(
        source=keys[0][bitext.source],
        source_offsets=bitext.source_offsets,
        target=keys[1][bitext.target],
        target_offsets=bitext.target_offsets,
        source_words=int(keys[0].max()) + 1,
        target_words=int(keys[1].max()) + 1,
    )


def _lower_keys(table: UnitTable) -> Int32:
    """Number of each unit's lower-cased text, in the order of first occurrence: int32 [units]."""
    indices = pc.utf8_lower(table.texts()).dictionary_encode().indices
    return np.asarray(indices.to_numpy(zero_copy_only=False), dtype=np.int32)
