import json
import uuid
from datetime import UTC, datetime, timedelta

import fsspec
import pytest

from storage.gc import collect
from storage.store import Built, Store

NOW = datetime.now(UTC) + timedelta(days=10)


@pytest.fixture
def chain(make_request, builder):
    """Makes a corpus and a tokenizer on it in a store, and a run that names the tokenizer: `chain(store, 1)`."""

    def make(store, number, run=True):
        corpus = store.get_or_build(make_request("corpus", n=number), builder({"c": f"corpus {number}"})).artifact
        request = make_request("tokenizer", n=number, inputs={"corpus": corpus})
        tokenizer = store.get_or_build(request, builder({"t": str(number)}, measurements=[{"s": 1.0}])).artifact
        if run:
            record = {
                "started_at": f"2026-01-0{number}T00:00:00+00:00",
                "artifacts": [{"stage": "tokenizer", "key": tokenizer.key}],
            }
            store.write_run(f"run-{9 - number}", "run.json", json.dumps(record).encode())
        return corpus, tokenizer

    return make


def run(store, keep_runs=None, older_than=None, dry_run=False):
    return collect(store, keep_runs=keep_runs, older_than=older_than, now=NOW, dry_run=dry_run)


def there(store):
    return {(manifest.stage, manifest.key) for manifest in store.manifests()}


def names(*refs):
    return {(ref.stage, ref.key) for ref in refs}


def removed(report):
    return {(item.stage, item.key) for item in report.removed}


@pytest.fixture(params=["local", "remote"])
def any_store(request, tmp_path):
    local = request.param == "local"
    yield Store(str(tmp_path / "s") if local else f"memory://{uuid.uuid4().hex}", cache=tmp_path / "cache")
    fsspec.filesystem("memory").store.clear()


def test_keeps_what_the_last_runs_need(any_store, chain):
    store = any_store
    first, second = chain(store, 1), chain(store, 2)
    lost = chain(store, 3, run=False)
    plan = run(store, keep_runs=1, dry_run=True)
    assert plan.dry_run
    assert removed(plan) == names(*first, *lost)
    assert there(store) == names(*first, *second, *lost)
    sizes = {(item.stage, item.key): item.bytes for item in plan.removed}
    report = run(store, keep_runs=1)
    assert (report.removed, report.kept, report.bytes) == (plan.removed, 2, sum(sizes.values()))
    assert all(size > 500 for size in sizes.values())  # the manifest counts
    assert there(store) == names(*second)
    assert store.measurements(second[1])
    assert store.measurements(first[1]) is None
    assert (store.open(second[1]) / "t").read_text() == "2"
    assert run(store, keep_runs=1).removed == ()


def test_no_limit_keeps_every_run_and_zero_none(store, chain):
    kept = chain(store, 1) + chain(store, 2)
    lost = chain(store, 3, run=False)
    assert removed(run(store, dry_run=True)) == names(*lost)
    assert removed(run(store, keep_runs=5, dry_run=True)) == names(*lost)
    assert removed(run(store, keep_runs=0, dry_run=True)) == names(*lost, *kept)


def test_age(store, chain):
    artifacts = chain(store, 1, run=False)
    assert run(store, older_than=timedelta(days=11)).removed == ()
    assert removed(run(store, older_than=timedelta(days=9))) == names(*artifacts)
    assert there(store) == set()


def test_what_a_young_artifact_was_made_from_stays(store, chain, monkeypatch):
    corpus, tokenizer = chain(store, 1, run=False)
    manifest = store.manifest(corpus)
    path = store.layout.artifact("corpus", corpus.key) / "manifest.json"
    import dataclasses

    from storage.manifest import manifest_json

    path.chmod(0o644)
    path.write_bytes(manifest_json(dataclasses.replace(manifest, started_at="2020-01-01T00:00:00+00:00").sealed()))
    assert run(store, keep_runs=0, older_than=timedelta(days=11)).removed == ()
    assert there(store) == names(corpus, tokenizer)


def test_a_run_that_cannot_be_read_stops_the_deletion(store, chain):
    kept = chain(store, 1)
    store.write_run("run-bad", "run.json", b'{"artifacts": [')
    report = run(store, keep_runs=0)
    assert (report.removed, report.kept) == ((), 2)
    assert "run run-bad: run.json cannot be read" in report.problems[0]
    assert there(store) == names(*kept)


def test_left_overs_of_a_killed_process(store, make_request, child):
    script = """
def build(out, work):
    (out / 'half').write_text('x' * 10)
    (work / 'checkpoint').write_text('y' * 20)
    stop_here('building')
Store(sys.argv[1]).get_or_build(BuildRequest('slow', 1, {}), build)
"""
    process = child(script, store.url)
    assert process.stdout.readline() == "building\n"
    trash = store.layout.new_trash()
    trash.mkdir(parents=True)
    (trash / "old").write_text("z" * 30)
    report = run(store)
    key = make_request("slow").key
    assert [item.kind for item in report.removed] == ["trash"]
    assert set(report.locked) == {("slow", key)}
    process.kill()
    process.wait()
    plan = run(store, dry_run=True)
    assert [(item.kind, item.stage, item.key, item.bytes) for item in plan.removed] == [
        ("staging", "slow", key, 10),
        ("work", "slow", key, 20),
    ]
    assert store.work_dir("slow", key).is_dir()
    assert [item.kind for item in run(store, older_than=timedelta(days=11)).removed] == ["staging"]  # work is young
    assert [item.kind for item in run(store).removed] == ["work"]
    assert not store.work_dir("slow", key).exists()
    assert not [path for path in store.layout.root.rglob("*") if path.is_file()]


def test_an_artifact_that_is_being_rebuilt_stays(store, chain, make_request):
    _, tokenizer = chain(store, 1, run=False)
    with store.locked("tokenizer", tokenizer.key):
        for dry_run in (True, False):
            report = run(store, dry_run=dry_run)
            assert report.locked == (("tokenizer", tokenizer.key),)
            assert report.kept == 1
            assert [item.stage for item in report.removed] == ["corpus"]
    assert there(store) == names(tokenizer)


def test_a_damaged_artifact_goes_unless_a_run_needs_it(store, chain):
    _, kept = chain(store, 1)
    _, lost = chain(store, 2, run=False)
    for ref in (kept, lost):
        (store.layout.artifact(ref.stage, ref.key) / "manifest.json").unlink()
    report = run(store)
    assert [(item.kind, item.key) for item in report.removed if item.stage == "tokenizer"] == [("damaged", lost.key)]
    assert store.lookup("tokenizer", kept.key).problem == "manifest.json is missing"


def test_an_upload_without_a_manifest_goes_after_a_day(tmp_path, make_request, builder, monkeypatch):
    store = Store(f"local://{tmp_path}/remote", cache=tmp_path / "cache")
    kept = store.get_or_build(make_request(), builder({"a": "first"})).artifact
    store.write_run("r", "run.json", json.dumps({"artifacts": [{"stage": "stage-a", "key": kept.key}]}).encode())
    with monkeypatch.context() as patch:
        patch.setattr(type(store.backend._fs), "pipe_file", lambda *arguments: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            store.get_or_build(make_request(), builder({"a": "second!"}), force=True)
    young = collect(store, keep_runs=None, older_than=None, now=datetime.now(UTC), dry_run=False)
    assert [item for item in young.removed if item.kind == "upload"] == []
    old = run(store)
    assert [(item.kind, item.bytes) for item in old.removed if item.kind == "upload"] == [("upload", 7)]
    assert (store.open(kept) / "a").read_text() == "first"
    assert store.lookup("stage-a", kept.key).problem is None


def test_bad_arguments(store):
    with pytest.raises(ValueError, match="keep_runs is -1"):
        run(store, keep_runs=-1)
    with pytest.raises(ValueError, match="time zone"):
        collect(store, keep_runs=1, older_than=None, now=datetime(2026, 1, 1))


def test_an_empty_store(store):
    assert run(store).removed == ()


def test_collected_artifacts_can_be_built_again(store, make_request):
    def build(out, work):
        (out / "a").write_text("x")
        return Built()

    store.get_or_build(make_request(), build)
    run(store)
    assert store.get_or_build(make_request(), build).status == "built"
