"""Where `langadapt align` works and where its links go."""

import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


@contextmanager
def work_folder(work: Path | None) -> Iterator[Path]:
    """The folder to work in: temporary, or `work`, locked, and emptied of what is ours when all is done."""
    if work is None:
        with tempfile.TemporaryDirectory(prefix="langadapt-align-") as temporary:
            yield Path(temporary)
        return
    import fcntl
    import shutil

    from tasks.contract import InputError

    own = work / "langadapt-align"
    own.mkdir(parents=True, exist_ok=True)
    with (own / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InputError(f"--work {work} is in use by another process; name another folder") from error
        yield own
        shutil.rmtree(own)


@contextmanager
def writer(output: Path | None, format: str) -> Iterator[Callable[["pa.StringArray"], None]]:
    """A function that writes the next lines' links; a file is complete or not there."""
    if output is None:
        stream = sys.stdout.buffer
        yield lambda texts: _write_lines(texts, stream)
        stream.flush()
        return
    path = output
    special = path.exists() and not path.is_file()  # a device or a named pipe is written to as it is
    partial = path if special else path.with_name(path.name + ".partial")
    try:
        if format == "parquet":
            with _parquet_writer(partial) as write:
                yield write
        else:
            with partial.open("wb") as file:
                yield lambda texts: _write_lines(texts, file)
        if not special:
            partial.replace(path)
    except BaseException:
        if not special:
            with contextlib.suppress(FileNotFoundError):
                partial.unlink()
        raise


def _write_lines(texts: "pa.StringArray", stream: Any) -> None:
    from tasks.alignment.pharaoh import lines_of

    stream.write(lines_of(texts))


@contextmanager
def _parquet_writer(path: Path) -> Iterator[Callable[["pa.StringArray"], None]]:
    import numpy as np
    import pyarrow as pa

    from storage.tables import TableWriter

    schema = pa.schema([("pair", pa.int64()), ("links", pa.string())])
    done = 0
    with TableWriter(path, schema) as writer:

        def write(texts: "pa.StringArray") -> None:
            nonlocal done
            pairs = np.arange(done, done + len(texts), dtype=np.int64)
            writer.write(pa.table([pa.array(pairs), texts], schema=schema))
            done += len(texts)

        yield write
