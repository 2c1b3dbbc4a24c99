"""Parquet files written the same way everywhere, so that equal rows give equal bytes."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pyarrow.parquet as pq

ROW_GROUP_ROWS = 65_536


class TableWriter:
    """Writes one Parquet file in row groups of `ROW_GROUP_ROWS` rows, whatever the sizes of the tables handed in.

    Use as a context manager. The same rows in the same order give the same bytes with the same pyarrow.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._schema = schema
        self._writer = pq.ParquetWriter(path, schema, compression="zstd", store_schema=True)
        self._pending: list[pa.Table] = []
        self._pending_rows = 0

    def write(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Append `rows`; columns are cast to the schema.

        Raises:
            pa.ArrowInvalid: the columns do not fit the schema.
        """
        table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        table = table.select(self._schema.names).replace_schema_metadata(None).cast(self._schema)
        self._pending.append(table)
        self._pending_rows += table.num_rows
        if self._pending_rows >= ROW_GROUP_ROWS:
            self._flush(keep_rest=True)

    def _flush(self, keep_rest: bool) -> None:
        table = pa.concat_tables(self._pending)
        end = table.num_rows - table.num_rows % ROW_GROUP_ROWS if keep_rest else table.num_rows
        for start in range(0, end, ROW_GROUP_ROWS):
            self._writer.write_table(table.slice(start, min(ROW_GROUP_ROWS, end - start)).combine_chunks())
        self._pending = [table.slice(end)] if end < table.num_rows else []
        self._pending_rows = table.num_rows - end

    def close(self) -> None:
        """Write what is pending and the file's footer."""
        if self._pending:
            self._flush(keep_rest=False)
        self._writer.close()

    def __enter__(self) -> "TableWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._writer.close()


def write_table(table: pa.Table, path: Path) -> None:
    """Write `table` to the Parquet file `path` (see `TableWriter`)."""
    with TableWriter(path, table.schema.remove_metadata()) as writer:
        writer.write(table)


def read_batches(
    path: Path, columns: Sequence[str] | None = None, batch_rows: int = ROW_GROUP_ROWS
) -> Iterator[pa.RecordBatch]:
    """The rows of a Parquet file in batches of at most `batch_rows`, in file order."""
    with pq.ParquetFile(path) as file:
        yield from file.iter_batches(batch_size=batch_rows, columns=None if columns is None else list(columns))
