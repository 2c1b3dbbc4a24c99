import errno
import json
import logging
import os
import platform
import threading
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from storage.keys import content_digest, file_digest
from storage.manifest import DamagedArtifact, parse_manifest
from storage.store import ArtifactRef, BuildRequest, Built, InputEntry, Store
from storage.tables import write_table


def everything(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_builds_once_and_finds_it_again(store, make_request, builder):
    build = builder(summary={"rows": 3})
    first = store.get_or_build(make_request(size=3), build)
    second = store.get_or_build(make_request(size=3), build)
    assert (first.status, second.status, build.calls) == ("built", "cached", 1)
    assert first.artifact == second.artifact == store.lookup("stage-a", make_request(size=3).key).artifact
    folder = store.open(first.artifact)
    assert everything(folder) == ["a.txt", "manifest.json", "sub/b.bin"]
    assert (folder / "a.txt").read_text() == "alpha\n"
    assert first.artifact.bytes == 46
    files = [("a.txt", file_digest(folder / "a.txt")), ("sub/b.bin", file_digest(folder / "sub/b.bin"))]
    assert first.artifact.digest == content_digest(files)


def test_layout_on_disk(store, make_request, builder):
    artifact = store.get_or_build(make_request(), builder(measurements=[{"step": 1, "seconds": 0.5}])).artifact
    key = artifact.key
    assert set(everything(store.layout.root)) == {
        f"artifacts/stage-a/{key[:2]}/{key}/a.txt",
        f"artifacts/stage-a/{key[:2]}/{key}/manifest.json",
        f"artifacts/stage-a/{key[:2]}/{key}/sub/b.bin",
        f"measurements/stage-a/{key}.parquet",
        f"locks/stage-a/{key}.lock",
        f"stamps/stage-a/{key}.json",
    }
    assert not store.work_dir("stage-a", key).exists()


def test_manifest_says_what_made_it(store, make_request, builder):
    upstream = store.get_or_build(make_request("corpus"), builder()).artifact
    request = make_request("tokenizer", version=3, size=8000, inputs={"corpus": upstream})
    artifact = store.get_or_build(request, builder({"m": "1"}, summary={"types": 5})).artifact
    manifest = store.manifest(artifact)
    assert (manifest.stage, manifest.version, manifest.key) == ("tokenizer", 3, request.key)
    assert manifest.config == {"size": 8000}
    assert manifest.inputs == {"corpus": InputEntry("corpus", upstream.key, upstream.digest)}
    assert manifest.summary == {"types": 5}
    assert (manifest.host, manifest.python) == (platform.node(), platform.python_version())
    assert "pyarrow" in manifest.libraries
    assert [item.stage for item in store.manifests()] == ["corpus", "tokenizer"]
    assert list(store.manifests("tokenizer")) == [manifest]
    assert parse_manifest((store.open(artifact) / "manifest.json").read_bytes()) == manifest


def test_digest_depends_on_content_alone(store, make_request, builder):
    one = store.get_or_build(make_request(seed=1), builder(summary={"a": 1}, measurements=[{"s": 1.0}])).artifact
    other = store.get_or_build(make_request(seed=2), builder(summary={"a": 2})).artifact
    assert one.digest == other.digest
    assert one.key != other.key


def test_force_keeps_the_same_content_and_replaces_another(store, make_request, builder):
    request = make_request()
    first = store.get_or_build(request, builder()).artifact
    inode = (store.open(first) / "a.txt").stat().st_ino
    again = store.get_or_build(request, builder(summary={"new": 1}), force=True)
    assert (again.status, again.artifact) == ("rebuilt-same", first)
    assert (store.open(first) / "a.txt").stat().st_ino == inode
    assert store.manifest(first).summary == {}
    other = store.get_or_build(request, builder({"a.txt": "beta\n"}), force=True)
    assert other.status == "built"
    assert (store.open(other.artifact) / "a.txt").read_text() == "beta\n"
    with pytest.raises(DamagedArtifact, match=r"its content is .* now instead of"):
        store.open(first)
    assert everything(store.layout.root / "trash") == []


def test_force_on_nothing_builds(store, make_request, builder):
    assert store.get_or_build(make_request(), builder(), force=True).status == "built"


def test_a_failed_build_leaves_its_work_and_nothing_else(store, make_request):
    request = make_request()

    def fail(out, work):
        (out / "half").write_text("x")
        (work / "checkpoint").write_text("step 5")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.get_or_build(request, fail)
    assert store.lookup("stage-a", request.key).artifact is None
    assert not list((store.layout.root / "staging").rglob("half"))
    assert (store.work_dir("stage-a", request.key) / "checkpoint").read_text() == "step 5"

    def resume(out, work):
        (out / "whole").write_text((work / "checkpoint").read_text())
        assert sorted(path.name for path in out.iterdir()) == ["whole"]
        return Built()

    assert store.get_or_build(request, resume).status == "built"
    assert not store.work_dir("stage-a", request.key).exists()


def test_interrupt_cleans_staging(store, make_request):
    def interrupted(out, work):
        (out / "half").write_text("x")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.get_or_build(make_request(), interrupted)
    assert everything(store.layout.root / "staging") == []


def bad_empty(out):
    (out / "folder").mkdir()


def bad_link(out):
    (out / "a").write_text("x")
    (out / "link").symlink_to("a")


def bad_pipe(out):
    os.mkfifo(out / "pipe")


def bad_manifest(out):
    (out / "manifest.json").write_text("{}")


def bad_name(out):
    (out / "line\nbreak").write_text("")


def bad_bytes(out):
    os.close(os.open(os.fsencode(out) + b"/\xff", os.O_CREAT | os.O_WRONLY))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (bad_empty, "left no file"), (bad_link, "link is not a regular file"), (bad_pipe, "pipe is not a regular"),
        (bad_manifest, "the store keeps for itself"), (bad_name, "file name"), (bad_bytes, "not a regular file"),
    ],
)  # fmt: skip
def test_odd_output_is_an_error(store, make_request, make, message):
    def build(out, work):
        make(out)
        return Built()

    request = make_request()
    with pytest.raises(ValueError, match=message):
        store.get_or_build(request, build)
    assert store.lookup("stage-a", request.key).artifact is None


def test_empty_folders_are_dropped_and_empty_files_kept(store, make_request):
    def build(out, work):
        (out / "a" / "b" / "c").mkdir(parents=True)
        (out / "a" / "empty").write_text("")
        return Built()

    folder = store.open(store.get_or_build(make_request(), build).artifact)
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*")) == ["a", "a/empty", "manifest.json"]


def test_config_or_summary_that_is_no_json(store, make_request, builder):
    with pytest.raises(TypeError, match=r"config\.x: .*set"):
        store.get_or_build(make_request(x={1}), builder())
    with pytest.raises(TypeError, match="summary"):
        store.get_or_build(make_request(x=1), builder(summary={"x": {1}}))


def test_measurements(store, make_request, builder):
    rows = [{"step": 1, "speed": 2.0}, {"step": 2, "memory": 3}]
    artifact = store.get_or_build(make_request(), builder(measurements=rows)).artifact
    assert pq.read_table(store.measurements(artifact)).to_pylist() == [
        {"step": 1, "speed": 2.0, "memory": None},
        {"step": 2, "speed": None, "memory": 3},
    ]
    without = store.get_or_build(make_request(size=2), builder()).artifact
    assert store.measurements(without) is None
    with pytest.raises(TypeError, match="measurements cannot be one table"):
        store.get_or_build(make_request(size=3), builder(measurements=[{"a": 1}, {"a": "x"}]))


def test_published_files_are_read_only(store, make_request, builder):
    folder = store.open(store.get_or_build(make_request(), builder()).artifact)
    assert {path.stat().st_mode & 0o777 for path in folder.rglob("*") if path.is_file()} == {0o444}


def test_a_reference_is_plain_json(store, make_request, builder):
    artifact = store.get_or_build(make_request(), builder()).artifact
    assert ArtifactRef.from_dict(json.loads(json.dumps(artifact.to_dict()))) == artifact
    assert artifact.as_input() == InputEntry("stage-a", artifact.key, artifact.digest)


def test_runs(store):
    assert store.runs() == []
    where = store.write_run("run-2", "run.json", b"{}")
    store.write_run("run-1", "report.html", b"<p>")
    store.write_run("run-2", "run.json", b'{"a": 1}')
    assert Path(where).read_bytes() == b'{"a": 1}'
    assert store.runs() == ["run-1", "run-2"]
    assert store.read_run("run-2") == b'{"a": 1}'
    assert store.read_run("run-1") is None
    assert everything(store.layout.root / "runs") == ["run-1/report.html", "run-2/run.json"]


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_urls_of_a_local_folder(tmp_path, make_request, builder, prefix):
    store = Store(f"{prefix}{tmp_path}/a b", cache=tmp_path / "unused")
    assert store.is_local
    store.get_or_build(make_request(), builder())
    assert (tmp_path / "a b" / "artifacts").is_dir()
    assert not (tmp_path / "unused").exists()


def test_making_a_store_and_looking_touches_nothing(tmp_path):
    store = Store(str(tmp_path / "none"))
    assert store.lookup("s", "a" * 64).artifact is None
    assert (list(store.manifests()), store.runs()) == ([], [])
    assert not (tmp_path / "none").exists()


def test_bad_arguments(tmp_path):
    with pytest.raises(ValueError, match="verify 'sha'"):
        Store(str(tmp_path), verify="sha")
    with pytest.raises(ValueError, match="three slashes"):
        Store("file://relative/path")
    with pytest.raises(ValueError, match="nosuch"):
        Store("nosuch://bucket/store")


def test_a_full_disk_is_reported_with_the_path(store, make_request, builder, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    request = make_request()
    with pytest.raises(OSError, match=rf"No space left on device: '.*{request.key}.*a\.txt'"):
        store.get_or_build(request, builder())
    monkeypatch.undo()
    assert store.lookup("stage-a", request.key).artifact is None
    assert everything(store.layout.root / "staging") == []


def test_everything_is_on_the_disk_before_it_is_visible(store, make_request, builder, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    rename = Path.rename
    checked = []

    def checking(path, target):
        if path.name == "out":
            checked.append(path)
            for item in (path, *path.rglob("*")):
                assert item.stat().st_ino in synced, item
            synced.clear()
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", checking)
    artifact = store.get_or_build(make_request(), builder(measurements=[{"s": 1.0}])).artifact
    assert len(checked) == 1
    assert synced == [store.open(artifact).parent.stat().st_ino]


def test_an_unusable_root_is_reported_with_the_path(tmp_path, make_request, builder):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        Store(str(tmp_path / "file")).get_or_build(make_request(), builder())


def test_threads_build_once(store, make_request, builder):
    build, outcomes = builder(), []
    barrier = threading.Barrier(4)

    def run():
        barrier.wait()
        outcomes.append(store.get_or_build(make_request(), build).status)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["built", "cached", "cached", "cached"]
    assert build.calls == 1


def test_damaged_manifests_are_left_out_with_a_warning(store, make_request, builder, caplog):
    good = store.get_or_build(make_request(n=1), builder()).artifact
    bad = store.get_or_build(make_request(n=2), builder()).artifact
    path = store.open(bad) / "manifest.json"
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-20])
    (store.layout.root / "artifacts" / "stage-a" / "notes").mkdir()
    with caplog.at_level(logging.WARNING):
        assert [manifest.key for manifest in store.manifests()] == [good.key]
    assert f"{bad.key} is left out: manifest.json is not JSON" in caplog.text


def test_equal_rows_give_an_equal_digest(store, make_request):
    import pyarrow as pa

    def build(out, work):
        write_table(pa.table({"a": range(1000)}), out / "t.parquet")
        return Built()

    digests = {store.get_or_build(make_request(n=n), build).artifact.digest for n in range(2)}
    assert len(digests) == 1


def test_request_key_uses_input_digests_only():
    one = BuildRequest("s", 1, {}, {"a": InputEntry("x", "1" * 64, "d")})
    other = BuildRequest("s", 1, {}, {"a": InputEntry("y", "2" * 64, "d")})
    assert one.key == other.key
