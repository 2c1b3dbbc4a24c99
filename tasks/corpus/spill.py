"""Rows divided into partitions by their hash, on disk once they outgrow the memory."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from tasks.corpus.hashes import Hashes

_BITS = 6
_MAX_DEPTH = 9
_LIMIT_CAP = 256 * 1024 * 1024

Compact = Callable[[pa.Table], pa.Table]


def spill_limit(memory_mib: int) -> int:
    """Bytes of rows held at a time for a working memory of `memory_mib`: an eighth, since sorting and writing copy."""
    return min(memory_mib * 1024 * 1024 // 8, _LIMIT_CAP)


class Spill:
    """Takes rows in any order of their hashes and gives them back in partitions of ascending hash ranges.

    Inside a partition rows keep the order in which they came. How many partitions there are depends on the limit; that
    all rows of one hash are in one partition, and partitions ascend, does not.

    Args:
        folder: for the partition files; what is in it is deleted.
        schema: of the rows; column `group_high` uint64 decides the partition.
        limit: bytes of rows held at a time.
        compact: shrinks a table with many repetitions; used on partitions over the limit.
        depth: how many groups of bits of the hash are already shared by all rows.
    """

    def __init__(self, folder: Path, schema: pa.Schema, limit: int, compact: Compact, depth: int = 0) -> None:
        self._folder, self._schema, self._limit, self._compact, self._depth = folder, schema, limit, compact, depth
        shutil.rmtree(folder, ignore_errors=True)
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self._writers: dict[int, pa.ipc.RecordBatchStreamWriter] = {}
        self._sizes: dict[int, int] = {}
        self.spilled_bytes = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Take rows."""
        self._held.append(rows)
        self._held_bytes += rows.get_total_buffer_size()
        if self._writers or self._held_bytes > self._limit:
            self._write_held()

    def partitions(self) -> Iterator[pa.Table]:
        """The rows, in partitions of ascending hash ranges; ends the spill and deletes its files."""
        if not self._writers:
            yield pa.Table.from_batches(self._held, schema=self._schema)
            self._held = []
            return
        for writer in self._writers.values():
            writer.close()
        for part in sorted(self._writers):
            yield from self._partition(part)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _partition(self, part: int) -> Iterator[pa.Table]:
        path = self._path(part)
        if self._sizes[part] <= self._limit or self._depth >= _MAX_DEPTH:
            with pa.OSFile(str(path), "rb") as file:
                yield pa.ipc.open_stream(file).read_all()
        else:
            deeper = Spill(self._folder / f"{part:02}", self._schema, self._limit, self._compact, depth=self._depth + 1)
            for rows in _compacted(path, self._limit // 2, self._compact):
                deeper.add(rows)
            path.unlink()
            yield from deeper.partitions()
        path.unlink(missing_ok=True)

    def _path(self, part: int) -> Path:
        return self._folder / f"{part:02}.arrow"

    def _write_held(self) -> None:
        for rows in self._held:
            self._write(rows)
        self._held, self._held_bytes = [], 0

    def _write(self, rows: pa.RecordBatch) -> None:
        parts = _part_of(rows.column("group_high").to_numpy(), self._depth)
        order = np.argsort(parts, kind="stable")
        rows = rows.take(pa.array(order))
        bounds = np.searchsorted(parts[order], np.arange((1 << _BITS) + 1))
        for part in range(1 << _BITS):
            piece = rows.slice(bounds[part], bounds[part + 1] - bounds[part])
            if piece.num_rows:
                self._writer(part).write_batch(piece)
                self._sizes[part] = self._sizes.get(part, 0) + piece.nbytes
                self.spilled_bytes += piece.nbytes

    def _writer(self, part: int) -> pa.ipc.RecordBatchStreamWriter:
        if part not in self._writers:
            self._folder.mkdir(parents=True, exist_ok=True)
            options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
            self._writers[part] = pa.ipc.new_stream(str(self._path(part)), self._schema, options=options)
        return self._writers[part]


def _part_of(high: Hashes, depth: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    shift = np.uint64(64 - _BITS * (depth + 1))
    return ((high >> shift) & np.uint64((1 << _BITS) - 1)).astype(np.uint8)


def _compacted(path: Path, limit: int, compact: Compact) -> Iterator[pa.RecordBatch]:
    held: list[pa.RecordBatch] = []
    size = 0
    with pa.OSFile(str(path), "rb") as file:
        for rows in pa.ipc.open_stream(file):
            held.append(rows)
            size += rows.nbytes
            if size > limit:
                yield from compact(pa.Table.from_batches(held)).to_batches()
                held, size = [], 0
    if held:
        yield from compact(pa.Table.from_batches(held)).to_batches()
