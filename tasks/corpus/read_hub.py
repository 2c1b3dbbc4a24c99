"""Data sets of the Hugging Face hub, streamed."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from configs.schema import HubSource
from tasks.contract import InputError
from tasks.corpus.read_parquet import described, find_column, is_text, text_records
from tasks.corpus.records import Records

_BATCH_ROWS = 1000
_NETWORK_MODULES = frozenset(
    {"httpx", "httpcore", "aiohttp", "requests", "urllib3", "huggingface_hub", "fsspec", "socket"}
)


def read_hub(source: HubSource, columns: Sequence[str], names: Sequence[str]) -> Iterator[Records]:
    """The `columns` ('a.b' looks inside a struct) of a streamed data set as the text columns `names`.

    At most `source.limit` rows are read. Rows without text are bad rows 'missing-text'.

    Raises:
        InputError: no such data set, configuration, split or column; or it has no rows.
        OSError: the network or the hub failed; trying again may help.
    """
    first = 1
    for batch in _tables(source):
        paths = [_path(source, batch.schema, column) for column in columns]
        yield text_records(batch, paths, names, first, 0)
        first += batch.num_rows
    if first == 1:
        raise InputError(f"{_described(source)} has no rows")


def _tables(source: HubSource) -> Iterator[pa.RecordBatch]:
    """The rows as Arrow batches; rows that come as Python objects are converted."""
    try:
        for item in _open(source):
            table = item if isinstance(item, pa.Table) else pa.table(item)
            yield from table.combine_chunks().to_batches()
    except InputError:
        raise
    except Exception as error:
        raise _translated(source, error) from error


def _open(source: HubSource) -> Iterable[Any]:
    from datasets import load_dataset

    options: dict[str, Any] = {"revision": source.revision} if not Path(source.dataset).is_dir() else {}
    if source.trust_remote_code:
        options["trust_remote_code"] = True
    rows = load_dataset(source.dataset, source.config, split=source.hub_split, streaming=True, **options)
    if source.limit is not None:
        rows = rows.take(source.limit)
    batches: Iterable[Any] = rows.with_format("arrow").iter(batch_size=_BATCH_ROWS)
    return batches


def _path(source: HubSource, schema: pa.Schema, column: str) -> tuple[str, ...]:
    found = find_column(schema, column)
    if found is None:
        raise InputError(f"{_described(source)} has no column {column!r}; the columns are: {described(schema)}")
    if not (is_text(found[1]) or pa.types.is_null(found[1])):
        raise InputError(f"{_described(source)}: column {column!r} holds {found[1]}, not text")
    return found[0]


def _translated(source: HubSource, error: Exception) -> Exception:
    """`error` as an `InputError` if the configuration is at fault, as an `OSError` if the network is."""
    from datasets.exceptions import DatasetNotFoundError

    kinds = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    reason = f"{type(error).__name__}: {error}"
    if isinstance(error, DatasetNotFoundError) or (isinstance(error, ValueError) and not kinds & _NETWORK_MODULES):
        return InputError(
            f"{_described(source)} cannot be opened: {reason}. Check id, `config`, `hub_split` and `revision`; "
            "for a gated data set accept its terms on the hub and log in (hf auth login)"
        )
    if isinstance(error, OSError) or kinds & _NETWORK_MODULES:
        return OSError(f"{_described(source)} could not be read from the hub (trying again may help): {reason}")
    return error


def _described(source: HubSource) -> str:
    config = "" if source.config is None else f", config {source.config!r}"
    return f"source {source.name!r}: data set {source.dataset!r}{config}, split {source.hub_split!r}"
