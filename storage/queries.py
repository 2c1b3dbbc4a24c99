"""SQL over the store's Parquet files: DuckDB in memory, views over the files, nothing written.

Tables that are always there: `artifacts`, `runs`, `run_stages`. Views that are there when there is a file to look at:
`<stage>_<file name without .parquet>` for each Parquet file of a stage's artifacts, all artifacts together, with the
artifact's `key` as the first column (`alignment_word_pairs`, `evaluation_metrics`); `measurements_<stage>`. Whatever is
no letter or digit becomes '_' in a view's name.

A remote store is queried through its local copies: artifacts that this machine has never opened are in `artifacts`
but not in the views.
"""

import json
import logging
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from storage.manifest import Manifest
from storage.store import Store

_ARTIFACTS = pa.schema(
    [
        ("stage", pa.string()),
        ("key", pa.string()),
        ("digest", pa.string()),
        ("bytes", pa.int64()),
        ("seconds", pa.float64()),
        ("started_at", pa.timestamp("us")),
        ("host", pa.string()),
        ("summary", pa.string()),
    ]
)
_RUNS = pa.schema(
    [
        ("run_id", pa.string()),
        ("language", pa.string()),
        ("model", pa.string()),
        ("recipe", pa.string()),
        ("started_at", pa.timestamp("us")),
        ("status", pa.string()),
    ]
)
_RUN_STAGES = pa.schema(
    [
        ("run_id", pa.string()),
        ("node", pa.string()),
        ("stage", pa.string()),
        ("key", pa.string()),
        ("digest", pa.string()),
        ("status", pa.string()),
        ("seconds", pa.float64()),
    ]
)
_PATH = "_langadapt_path"  # column that the views do not show
_READING = ("SELECT", "EXPLAIN", "MULTI")  # MULTI is what PIVOT is parsed to

_log = logging.getLogger(__name__)


def connect(store: Store) -> duckdb.DuckDBPyConnection:
    """A DuckDB connection in memory with the tables and views of this module over `store`.

    It can read the files behind the views and nothing else: no other file, no attached database, no extension, and
    the settings are locked. Times are UTC.

    Raises:
        OSError: the store cannot be read.
    """
    connection = duckdb.connect(":memory:")
    manifests = list(store.manifests())
    _create_table(connection, "artifacts", pa.Table.from_pylist([_artifact_row(m) for m in manifests], _ARTIFACTS))
    connection.execute("ALTER TABLE artifacts ALTER summary TYPE JSON")
    runs = list(_run_records(store))
    _create_table(connection, "runs", pa.Table.from_pylist([_run_row(*run) for run in runs], _RUNS))
    stages = [row for run in runs for row in _stage_rows(*run)]
    _create_table(connection, "run_stages", pa.Table.from_pylist(stages, _RUN_STAGES))
    readable: list[Path] = []
    for name, files in _view_files(store, manifests).items():
        if _create_view(connection, name, files):
            readable += files.values()
    _confine(connection, readable)
    return connection


def query(store: Store, sql: str) -> pa.Table:
    """The rows that one reading statement gives (SELECT, WITH, FROM, PIVOT, DESCRIBE, SHOW, EXPLAIN).

    Raises:
        ValueError: `sql` is not one such statement.
        duckdb.Error: DuckDB refuses it (unknown table, syntax, a file outside the store).
    """
    statements = duckdb.extract_statements(sql)
    if len(statements) != 1:
        raise ValueError(f"{len(statements)} SQL statements: give one")
    kind = statements[0].type.name
    if kind not in _READING:
        raise ValueError(f"a {kind} statement: the store is only read; give a SELECT")
    with connect(store) as connection:
        return connection.sql(sql).to_arrow_table()


def _artifact_row(manifest: Manifest) -> dict[str, Any]:
    return {
        "stage": manifest.stage,
        "key": manifest.key,
        "digest": manifest.digest,
        "bytes": manifest.bytes,
        "seconds": manifest.seconds,
        "started_at": _utc(manifest.started_at),
        "host": manifest.host,
        "summary": json.dumps(manifest.summary, ensure_ascii=False),
    }


def _run_records(store: Store) -> Iterator[tuple[str, dict[str, Any]]]:
    for run_id in store.runs():
        data = store.read_run(run_id)
        if data is None:
            continue
        try:
            record = json.loads(data)
        except ValueError as error:
            _log.warning("run %s is left out: run.json is not JSON (%s)", run_id, error)
            continue
        if isinstance(record, dict):
            yield run_id, record


def _run_row(run_id: str, record: dict[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {name: _text(record.get(name)) for name in _RUNS.names}
    return row | {"run_id": run_id, "started_at": _utc(record.get("started_at"))}


def _stage_rows(run_id: str, record: dict[str, Any]) -> Iterator[dict[str, Any]]:
    stages = record.get("stages")
    for stage in stages if isinstance(stages, list) else []:
        if not isinstance(stage, dict):
            continue
        seconds = stage.get("seconds")
        row: dict[str, Any] = {name: _text(stage.get(name)) for name in _RUN_STAGES.names}
        yield row | {"run_id": run_id, "seconds": float(seconds) if isinstance(seconds, (int, float)) else None}


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _utc(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(text).astimezone(UTC).replace(tzinfo=None)
    except (TypeError, ValueError):
        return None


def _create_table(connection: duckdb.DuckDBPyConnection, name: str, table: pa.Table) -> None:
    connection.register("incoming", table)
    connection.execute(f"CREATE TABLE {_quoted(name)} AS FROM incoming")
    connection.unregister("incoming")


def _view_files(store: Store, manifests: Iterable[Manifest]) -> dict[str, dict[str, Path]]:
    """Parquet file of each artifact key, by name of the view."""
    groups: dict[tuple[str, str], dict[str, Path]] = {}
    for manifest in manifests:
        tables = [entry.path for entry in manifest.files if entry.path.endswith(".parquet")]
        folder = store.backend.local_folder(manifest) if tables else None
        for path in tables if folder is not None else []:
            assert folder is not None
            groups.setdefault((manifest.stage, path), {})[manifest.key] = folder / path
        measurements = store.layout.measurements(manifest.stage, manifest.key)
        if measurements.is_file():
            groups.setdefault(("measurements", f"{manifest.stage}.parquet"), {})[manifest.key] = measurements
    views: dict[str, dict[str, Path]] = {}
    for (stage, path), files in sorted(groups.items()):
        views[_free_name(f"{stage}_{path.removesuffix('.parquet')}", views)] = files
    return views


def _free_name(wanted: str, taken: Iterable[str]) -> str:
    """`wanted` as an SQL name, with a number where two files would share it."""
    name = re.sub(r"[^a-z0-9]", "_", wanted.lower())
    used = {"artifacts", "runs", "run_stages", *taken}
    numbered = (f"{name}_{number}" for number in range(2, len(used) + 3))
    return name if name not in used else next(candidate for candidate in numbered if candidate not in used)


def _create_view(connection: duckdb.DuckDBPyConnection, name: str, files: dict[str, Path]) -> bool:
    """Create the view; False, with a warning, where the files cannot be one table."""
    paths = ", ".join(_literal(str(path)) for path in files.values())
    source = f"read_parquet([{paths}], union_by_name = true, hive_partitioning = false, filename = '{_PATH}')"
    by_path = "MAP {" + ", ".join(f"{_literal(str(path))}: {_literal(key)}" for key, path in files.items()) + "}"
    try:
        columns = [row[0] for row in connection.execute(f"DESCRIBE FROM {source}").fetchall()]
        shown = ", ".join(_quoted(column) for column in columns if column not in (_PATH, "key"))
        key = f"{by_path}[{_PATH}] AS key"
        connection.execute(f"CREATE VIEW {_quoted(name)} AS SELECT {key}{', ' if shown else ''}{shown} FROM {source}")
    except duckdb.Error as error:
        _log.warning("view %s is left out: %s", name, error)
        return False
    return True


def _confine(connection: duckdb.DuckDBPyConnection, readable: list[Path]) -> None:
    """Let the connection read the files behind its views and nothing else, for good."""
    spill = Path(tempfile.gettempdir()) / f"langadapt-duckdb-{os.getpid()}"
    allowed = ", ".join(_literal(str(path)) for path in readable)
    connection.execute(f"SET temp_directory = {_literal(str(spill))}")
    connection.execute(f"SET allowed_paths = [{allowed}]")
    for setting in ("autoinstall_known_extensions", "autoload_known_extensions", "python_enable_replacements"):
        connection.execute(f"SET {setting} = false")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
