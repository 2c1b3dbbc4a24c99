"""Parquet files whose row groups are bounded in rows and in bytes, so that long texts do not fill the memory."""

from pathlib import Path
from types import TracebackType

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from storage.tables import ROW_GROUP_ROWS
from tasks.corpus.records import Integers, text_sizes

ROW_GROUP_BYTES = 32 * 1024 * 1024


class TextWriter:
    """Writes string columns to one Parquet file; a context manager.

    A row group ends after `ROW_GROUP_ROWS` rows, or with the row that brings its text to `ROW_GROUP_BYTES`. So the same
    rows in the same order give the same bytes, however they are divided into batches.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._schema = schema
        self._writer = pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=["corpus"], store_schema=True)
        self._pending: list[pa.Table] = []
        self._rows = 0
        self._bytes = 0

    def write(self, rows: pa.Table) -> None:
        """Append `rows`, which have the file's schema."""
        start, total = 0, np.cumsum(_row_bytes(rows))
        while start < rows.num_rows:
            done = int(total[start - 1]) if start else 0
            by_bytes = int(np.searchsorted(total, ROW_GROUP_BYTES - self._bytes + done)) + 1
            end = min(by_bytes, start + ROW_GROUP_ROWS - self._rows, rows.num_rows)
            self._pending.append(rows.slice(start, end - start))
            self._rows += end - start
            self._bytes += int(total[end - 1]) - done
            if self._rows == ROW_GROUP_ROWS or self._bytes >= ROW_GROUP_BYTES:
                self._flush()
            start = end

    def _flush(self) -> None:
        table = pa.concat_tables(self._pending).combine_chunks()
        self._writer.write_table(table, row_group_size=max(1, table.num_rows))
        self._pending, self._rows, self._bytes = [], 0, 0

    def __enter__(self) -> "TextWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._pending:
            self._flush()
        self._writer.close()


def _row_bytes(rows: pa.Table) -> Integers:
    sizes = [text_sizes(rows.column(name).combine_chunks()) for name in rows.column_names if name != "corpus"]
    return np.asarray(np.sum(sizes, axis=0), dtype=np.int64)
