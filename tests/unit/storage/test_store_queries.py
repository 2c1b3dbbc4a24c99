import json
import logging
from datetime import datetime

import duckdb
import pyarrow as pa
import pytest

from storage.queries import connect, query
from storage.store import Built, Store
from storage.tables import write_table


@pytest.fixture
def add(make_request):
    """Adds an artifact of Parquet files: `add(store, "stage", {"name.parquet": {"column": [...]}}, n=1)`."""

    def make(store, stage, tables, measurements=(), summary=None, **config):
        def build(out, work):
            for name, columns in tables.items():
                (out / name).parent.mkdir(parents=True, exist_ok=True)
                write_table(pa.table(columns), out / name)
            return Built(summary or {}, list(measurements))

        return store.get_or_build(make_request(stage, **config), build).artifact

    return make


def rows(store, sql):
    return query(store, sql).to_pylist()


def test_one_view_for_each_file_name_of_a_stage(store, add):
    one = add(store, "evaluation", {"metrics.parquet": {"metric": ["bpb"], "value": [3.0]}}, n=1)
    two = add(store, "evaluation", {"metrics.parquet": {"metric": ["bpb"], "value": [2.0], "unit": ["bit"]}}, n=2)
    add(store, "alignment", {"word_pairs.parquet": {"source_unit": [1], "count": [0.5]}})
    add(store, "initial-model", {"sub/to-ken.parquet": {"id": [7]}})
    assert rows(store, "SELECT * FROM evaluation_metrics ORDER BY value") == [
        {"key": two.key, "metric": "bpb", "value": 2.0, "unit": "bit"},
        {"key": one.key, "metric": "bpb", "value": 3.0, "unit": None},
    ]
    assert rows(store, "SELECT count FROM alignment_word_pairs") == [{"count": 0.5}]
    assert rows(store, "FROM initial_model_sub_to_ken SELECT id") == [{"id": 7}]


def test_tables_of_artifacts_and_measurements(store, add):
    artifact = add(store, "initial-model", {"t.parquet": {"a": [1]}}, [{"phase": "p", "seconds": 2.5}], {"loss": 1.5})
    (row,) = rows(store, "SELECT *, summary->>'loss' AS loss FROM artifacts")
    assert (row["stage"], row["key"], row["digest"]) == ("initial-model", artifact.key, artifact.digest)
    assert (row["bytes"], row["seconds"], row["loss"]) == (artifact.bytes, artifact.seconds, "1.5")
    assert isinstance(row["started_at"], datetime)
    assert rows(store, "FROM measurements_initial_model") == [{"key": artifact.key, "phase": "p", "seconds": 2.5}]


def test_runs_and_their_stages(store):
    stage = {"node": "tokenizer-eo", "stage": "tokenizer", "key": "k", "digest": "d", "status": "cached", "seconds": 1}
    record = {
        "run_id": "r1",
        "language": "eo",
        "model": "tiny",
        "recipe": "mean",
        "status": "completed",
        "started_at": "2026-01-01T02:00:00+02:00",
        "stages": [stage, {"node": "x", "seconds": None}, 3],
    }
    store.write_run("r1", "run.json", json.dumps(record).encode())
    store.write_run("r2", "run.json", b'{"language": ["a"], "started_at": "soon", "stages": 5}')
    store.write_run("r3", "run.json", b"{")
    store.write_run("r4", "other.json", b"{}")
    assert rows(store, "FROM runs ORDER BY run_id") == [
        {"run_id": "r1", "language": "eo", "model": "tiny", "recipe": "mean",
         "started_at": datetime(2026, 1, 1), "status": "completed"},
        {"run_id": "r2", "language": '["a"]', "model": None, "recipe": None, "started_at": None, "status": None},
    ]  # fmt: skip
    assert rows(store, "SELECT run_id, node, status, seconds FROM run_stages ORDER BY node") == [
        {"run_id": "r1", "node": "tokenizer-eo", "status": "cached", "seconds": 1.0},
        {"run_id": "r1", "node": "x", "status": None, "seconds": None},
    ]


def test_an_empty_store_has_empty_tables_and_no_views(store):
    for table in ("artifacts", "runs", "run_stages"):
        assert rows(store, f"FROM {table}") == []
    with connect(store) as connection:
        assert len(connection.execute("SHOW TABLES").fetchall()) == 3
    with pytest.raises(duckdb.CatalogException, match="evaluation_metrics"):
        query(store, "FROM evaluation_metrics")


def test_damaged_artifacts_are_left_out(store, add, caplog):
    good = add(store, "s", {"t.parquet": {"a": [1]}}, n=1)
    bad = add(store, "s", {"t.parquet": {"a": [2]}}, n=2)
    path = store.open(bad) / "t.parquet"
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with caplog.at_level(logging.WARNING):
        assert rows(store, "FROM s_t") == [{"key": good.key, "a": 1}]
    assert f"{bad.key} is left out: file t.parquet: sha256 differs" in caplog.text


def test_names_and_columns_that_could_confuse(tmp_path, add, caplog):
    store = Store(str(tmp_path / "it's a [store]*?" / ("f" * 64)))
    one = add(store, "s", {"a-b.parquet": {"key": ["mine"], 'we"ird': [1]}, "a_b.parquet": {"x": [1]}})
    add(store, "artifacts", {"T.parquet": {"_path": [1], "filename": ["f"]}})
    add(store, "s", {"mixed.parquet": {"x": [1]}}, n=1)
    add(store, "s", {"mixed.parquet": {"x": [[1]]}}, n=2)
    with caplog.at_level(logging.WARNING):
        assert rows(store, "FROM s_a_b") == [{"key": one.key, 'we"ird': 1}]
    assert rows(store, "FROM s_a_b_2") == [{"key": one.key, "x": 1}]
    assert rows(store, "SELECT _path, filename FROM artifacts_t") == [{"_path": 1, "filename": "f"}]
    assert rows(store, "SELECT bytes > 0 AS b FROM artifacts WHERE stage = 'artifacts'") == [{"b": True}]


@pytest.mark.parametrize(
    "sql",
    [
        "COPY artifacts TO '{0}/o.csv'", "ATTACH '{0}/f.db'", "EXPORT DATABASE '{0}/x'", "CREATE TABLE t (a INT)",
        "DROP VIEW s_t", "INSTALL httpfs", "LOAD httpfs", "SET enable_external_access = true", "DELETE FROM artifacts",
        "SELECT 1; SELECT 2", "", "UPDATE artifacts SET stage = 'x'", "PRAGMA database_list", "CALL pragma_version()",
        "IMPORT DATABASE '{0}'", "BEGIN", "VACUUM", "PREPARE p AS SELECT 1", "USE memory", "CHECKPOINT",
    ],
)  # fmt: skip
def test_only_reading_statements(store, add, tmp_path, sql):
    add(store, "s", {"t.parquet": {"a": [1]}})
    with pytest.raises(ValueError, match="statement"):
        query(store, sql.format(tmp_path))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_text('/etc/hostname')", "FROM '{0}/other.parquet'", "FROM glob('{0}/*')",
        "SELECT * FROM read_csv('{1}')", "EXPLAIN ANALYZE COPY artifacts TO '{0}/o.csv'",
        "EXPLAIN ANALYZE COPY artifacts TO '{2}'", "FROM parquet_metadata('{0}/other.parquet')",
    ],
)  # fmt: skip
def test_no_file_but_those_of_the_views_is_touched(store, add, tmp_path, sql):
    artifact = add(store, "s", {"t.parquet": {"a": [1]}})
    write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    manifest = store.open(artifact) / "manifest.json"
    with pytest.raises(duckdb.Error, match="disabled by configuration"):
        query(store, sql.format(tmp_path, manifest, store.open(artifact) / "t.parquet"))
    assert not (tmp_path / "o.csv").exists()
    assert store.lookup("s", artifact.key, verify="full").problem is None


def test_a_connection_stays_confined(store, add):
    add(store, "s", {"t.parquet": {"a": [1]}})
    secret = pa.table({"a": [1]})
    with connect(store) as connection:
        for sql in ("SET enable_external_access = true", "RESET lock_configuration", "SET allowed_paths = ['/']"):
            with pytest.raises(duckdb.Error, match="lock"):
                connection.execute(sql)
        with pytest.raises(duckdb.CatalogException):
            connection.execute("FROM secret")
        assert secret.num_rows == 1
        connection.execute("CREATE TABLE mine AS FROM s_t")  # in memory: a person may
        assert connection.execute("FROM mine SELECT a").fetchall() == [(1,)]


def test_statements_that_read_in_other_words(store, add):
    add(store, "evaluation", {"metrics.parquet": {"metric": ["a", "b"], "value": [1.0, 2.0]}})
    assert rows(store, "WITH x AS (FROM evaluation_metrics) SELECT sum(value) AS s FROM x") == [{"s": 3.0}]
    assert rows(store, "PIVOT (SELECT metric, value FROM evaluation_metrics) ON metric USING sum(value)") == [
        {"a": 1.0, "b": 2.0}
    ]
    assert {row["column_name"] for row in rows(store, "DESCRIBE evaluation_metrics")} == {"key", "metric", "value"}
    assert len(rows(store, "SHOW TABLES")) == 4
    assert rows(store, "EXPLAIN SELECT 1")


def test_a_remote_store_shows_what_is_on_this_machine(tmp_path, add):
    store = Store(f"local://{tmp_path}/remote", cache=tmp_path / "a")
    artifact = add(store, "s", {"t.parquet": {"a": [1]}}, [{"seconds": 1.0}])
    assert rows(store, "FROM s_t") == [{"key": artifact.key, "a": 1}]
    other = Store(store.url, cache=tmp_path / "b")
    assert rows(other, "SELECT key FROM artifacts") == [{"key": artifact.key}]
    assert rows(other, "SELECT view_name FROM duckdb_views() WHERE NOT internal") == []
    other.open(artifact)
    assert rows(other, "FROM s_t") == [{"key": artifact.key, "a": 1}]
    assert rows(other, "FROM measurements_s") == [{"key": artifact.key, "seconds": 1.0}]
