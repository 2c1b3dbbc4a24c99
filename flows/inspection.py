"""Looking into a store: a run's record, an artifact, SQL over the tables, garbage."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from configs.faults import ConfigError
from flows.settings import Settings, open_store
from storage.store import Store


def find(where: Settings, what: str) -> dict[str, Any]:
    """The run whose id starts with `what`, or else the artifact whose key does.

    Raises:
        ConfigError: nothing fits, or several artifacts do.
    """
    store = open_store(where)
    runs = [run_id for run_id in store.runs() if run_id.startswith(what)]
    if len(runs) == 1:
        return run_record(store, runs[0])
    manifests = [manifest for manifest in store.manifests() if manifest.key.startswith(what)]
    if len(manifests) != 1:
        names = runs + [f"{item.stage} {item.key[:16]}" for item in manifests]
        found = "nothing" if not names else f"{len(names)}: {', '.join(names[:10])}"
        raise ConfigError(f"{what!r} fits {found}; see 'langadapt status', or give more letters")
    manifest = manifests[0]
    lookup = store.lookup(manifest.stage, manifest.key)
    folder = None if lookup.artifact is None else str(store.open(lookup.artifact))
    return {**asdict(manifest), "folder": folder, "problem": lookup.problem}


def run_record(store: Store, run_id: str) -> dict[str, Any]:
    """The record of a run; only its id where the record is missing or damaged."""
    data = store.read_run(run_id)
    try:
        record = json.loads(data or b"")
    except ValueError:
        return {"run_id": run_id, "status": "damaged record", "stages": [], "started_at": ""}
    return dict(record)


def newest_runs(where: Settings, limit: int | None = None) -> Iterator[dict[str, Any]]:
    """The records of the runs, newest first, at most `limit`; each is read when it is asked for."""
    store = open_store(where)
    for run_id in sorted(store.runs(), reverse=True)[:limit]:
        yield run_record(store, run_id)


def run_query(where: Settings, sql: str | None, limit: int) -> tuple[list[str], list[list[Any]], int]:
    """Run `sql` over the store's views, or list the views when it is None.

    Returns:
        Column names, at most `limit` rows, and the number of rows there are.

    Raises:
        ConfigError: the SQL cannot be run; DuckDB's message says why.
    """
    import duckdb

    from storage.queries import query

    statement = sql or (
        "SELECT table_name AS view, string_agg(column_name, ', ' ORDER BY ordinal_position) AS columns "
        "FROM information_schema.columns GROUP BY table_name ORDER BY table_name"
    )
    try:
        table = query(open_store(where), statement)
    except (duckdb.Error, ValueError) as error:
        raise ConfigError(f"query: {error}") from error
    rows = table.slice(0, limit).to_pylist()
    return table.column_names, [list(row.values()) for row in rows], table.num_rows


def collect_garbage(where: Settings, keep_runs: int, older_than: timedelta, dry_run: bool) -> dict[str, Any]:
    """Remove what no recent run uses (see `storage.gc.collect`); as plain JSON types."""
    from storage.gc import collect

    report = collect(
        open_store(where), keep_runs=keep_runs, older_than=older_than, now=datetime.now(UTC), dry_run=dry_run
    )
    return {**asdict(report), "bytes": report.bytes}
