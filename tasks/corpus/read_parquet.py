"""Parquet files, and columns of Arrow tables, as text."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tasks.corpus.open_file import Location, arrow_errors
from tasks.corpus.records import Column, Records, checked, text_sizes

_BATCH_BYTES = 2 * 1024 * 1024
_BATCH_ROWS = 65_536


def read_parquet(location: Location, columns: Sequence[str | int], names: Sequence[str]) -> Iterator[Records]:
    """The `columns` (name, 'a.b' inside a struct, or number counted from 0) as the text columns `names`.

    Rows without text are bad rows 'missing-text'.

    Raises:
        InputError: missing, damaged, without rows, or a column is not there or holds no text.
    """
    location.require()
    with arrow_errors(location, "this is not a Parquet file that can be read"):
        file = pq.ParquetFile(location.path, pre_buffer=False, buffer_size=1 << 20)
    with file:
        schema = file.schema_arrow
        paths = [_resolve(location, schema, column) for column in columns]
        rows = file.metadata.num_rows
        if rows == 0:
            raise location.error("the file has no rows; name a file with text, or leave the source out")
        size = location.path.stat().st_size
        unpacked = sum(file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups))
        batch_rows = int(np.clip(_BATCH_BYTES * rows // max(1, unpacked), 1, _BATCH_ROWS))
        tops = list(dict.fromkeys(path[0] for path in paths))
        batches = file.iter_batches(batch_size=batch_rows, columns=tops, use_threads=False)
        first = 1
        while True:
            with arrow_errors(location, f"the Parquet data is damaged after row {first - 1}"):
                batch = next(batches, None)
            if batch is None:
                break
            yield text_records(batch, paths, names, first, size * (first - 1 + batch.num_rows) // rows)
            first += batch.num_rows


def text_records(
    batch: pa.RecordBatch, paths: Sequence[Sequence[str]], names: Sequence[str], first: int, position: int
) -> Records:
    """The text columns under `paths` of an Arrow batch whose first row is number `first`."""
    texts = [_extract(batch, path) for path in paths]
    lines = np.arange(first, first + batch.num_rows, dtype=np.int64)
    return checked(lines, [Column(text, text_sizes(text)) for text in texts], names, position)


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type holds text (string or bytes, also dictionary-encoded)."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    tests = (
        pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view,
        pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view,
    )  # fmt: skip
    return any(test(kind) for test in tests)


def find_column(schema: pa.Schema, column: str) -> tuple[tuple[str, ...], pa.DataType] | None:
    """Path and type of `column` in `schema`: a name, or 'a.b' for field b of struct a; None where there is none."""
    if column in schema.names:
        return (column,), schema.field(column).type
    parts = tuple(column.split("."))
    if parts[0] not in schema.names:
        return None
    kind = schema.field(parts[0]).type
    for part in parts[1:]:
        if not pa.types.is_struct(kind) or kind.get_field_index(part) < 0:
            return None
        kind = kind.field(part).type
    return parts, kind


def described(schema: pa.Schema) -> str:
    """The columns of `schema` with their types, for a person."""
    return ", ".join(f"{field.name} ({str(field.type)[:80]})" for field in schema)


def _resolve(location: Location, schema: pa.Schema, column: str | int) -> tuple[str, ...]:
    if isinstance(column, str):
        found = find_column(schema, column)
    else:
        found = ((schema.names[column],), schema.types[column]) if 0 <= column < len(schema.names) else None
    if found is None:
        raise location.error(f"there is no column {column!r}; the columns are: {described(schema)}")
    if not is_text(found[1]):
        raise location.error(f"column {column!r} holds {found[1]}, not text; the columns are: {described(schema)}")
    return found[0]


def _extract(batch: pa.RecordBatch, path: Sequence[str]) -> pa.Array:
    array = batch.column(path[0])
    for part in path[1:]:
        array = pc.struct_field(array, part)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array.cast(pa.binary()) if not pa.types.is_binary(array.type) else array
