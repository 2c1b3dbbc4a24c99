import logging
import uuid

import fsspec
import pyarrow.parquet as pq
import pytest

from storage import backend_remote, verify
from storage.backend_remote import default_cache
from storage.manifest import DamagedArtifact
from storage.store import Store


@pytest.fixture(params=["memory", "local", "dir"])
def url(request, tmp_path):
    """URL of an empty remote store; the last two are local folders treated like remote storage."""
    yield {
        "memory": f"memory://{uuid.uuid4().hex}/store",
        "local": f"local://{tmp_path}/remote",
        "dir": f"dir::file://{tmp_path}/remote",
    }[request.param]
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    memory.pseudo_dirs[:] = [""]


@pytest.fixture
def machine(url, tmp_path):
    """Makes stores on `url`, each with the cache of another machine: `machine("b")`."""
    return lambda name="a", **options: Store(url, cache=tmp_path / f"cache-{name}", **options)


class Remote:
    """The files of a remote store."""

    def __init__(self, url):
        self.fs, self.base = fsspec.core.url_to_fs(url)

    def files(self):
        return {path.strip("/")[len(self.base.strip("/")) + 1 :]: path for path in self.fs.find(self.base)}

    def one(self, end):
        (path,) = [path for name, path in self.files().items() if name.endswith(end)]
        return path


@pytest.fixture
def remote(url):
    return Remote(url)


def test_built_on_one_machine_read_on_another(machine, remote, make_request, builder):
    build = builder(measurements=[{"seconds": 1.5}])
    artifact = machine("a").get_or_build(make_request(), build).artifact
    prefix = f"artifacts/stage-a/{artifact.key[:2]}/{artifact.key}"
    assert set(remote.files()) == {
        f"{prefix}/manifest.json",
        f"{prefix}/{artifact.digest}/a.txt",
        f"{prefix}/{artifact.digest}/sub/b.bin",
        f"measurements/stage-a/{artifact.key}.parquet",
    }
    other = machine("b")
    assert not other.is_local
    outcome = other.get_or_build(make_request(), build)
    assert (outcome.status, outcome.artifact, build.calls) == ("cached", artifact, 1)
    folder = other.open(artifact)
    assert folder.is_relative_to(other.layout.root)
    assert (folder / "a.txt").read_text() == "alpha\n"
    assert pq.read_table(other.measurements(artifact)).to_pylist() == [{"seconds": 1.5}]
    assert other.manifest(artifact) == machine("a").manifest(artifact)
    assert [item.key for item in other.manifests()] == [item.key for item in other.manifests("stage-a")]
    assert list(other.manifests("stage-b")) == []


def test_a_copy_is_fetched_once(machine, make_request, builder, monkeypatch):
    artifact = machine("a").get_or_build(make_request(), builder()).artifact
    other = machine("b")
    fetched = []
    get_file = type(other.backend._fs).get_file

    def counting(fs, path, target, **options):
        fetched.append(path)
        return get_file(fs, path, target, **options)

    monkeypatch.setattr(type(other.backend._fs), "get_file", counting)
    for _ in range(2):
        other.open(artifact)
        machine("b").open(artifact)
    assert len(fetched) == 2
    (other.open(artifact) / "a.txt").unlink()  # a damaged copy is fetched again
    assert (machine("b").open(artifact) / "a.txt").read_text() == "alpha\n"
    assert len(fetched) == 4


def test_nothing_is_visible_until_the_manifest_is_there(machine, remote, make_request, builder, monkeypatch):
    store = machine("a")
    fs = type(store.backend._fs)

    def crash(fs, path, data, **options):
        raise ConnectionError("connection lost")

    with monkeypatch.context() as patch:
        patch.setattr(fs, "pipe_file", crash)
        with pytest.raises(ConnectionError, match="connection lost"):
            store.get_or_build(make_request(), builder())
    assert remote.one("a.txt")
    for reader in (store, machine("b")):
        assert reader.lookup("stage-a", make_request().key) == type(reader.lookup("stage-a", "a" * 64))(None)
        assert list(reader.manifests()) == []
    assert store.get_or_build(make_request(), builder()).status == "built"


def test_damage_in_the_remote_place_is_found_and_repaired(machine, remote, make_request, builder):
    build = builder()
    artifact = machine("a").get_or_build(make_request(), build).artifact
    damages = [
        (lambda: remote.fs.rm_file(remote.one("a.txt")), "file a.txt is missing"),
        (lambda: remote.fs.pipe_file(remote.one("a.txt"), b"x"), "file a.txt: 1 bytes instead of 6"),
        (lambda: remote.fs.pipe_file(remote.one("a.txt"), b"alphb\n"), "file a.txt: sha256 differs"),
        (lambda: remote.fs.pipe_file(remote.one("manifest.json"), b"{"), "manifest.json is not JSON"),
    ]
    for number, (damage, reason) in enumerate(damages):
        damage()
        problems = []
        reader = machine(f"reader-{number}")
        assert reader.lookup("stage-a", artifact.key).problem.startswith(reason)
        with pytest.raises(DamagedArtifact, match="run its stage again"):
            reader.open(artifact)
        outcome = reader.get_or_build(make_request(), build, on_problem=problems.append)
        assert (outcome.status, outcome.artifact.digest) == ("built", artifact.digest)
        assert reason in problems[0]
        assert machine(f"other-{number}").lookup("stage-a", artifact.key).problem is None


def test_a_damaged_download_of_a_large_artifact_is_remembered(machine, remote, make_request, builder, monkeypatch):
    monkeypatch.setattr(backend_remote, "FULL_CHECK_BYTES", 0)
    monkeypatch.setattr(verify, "FULL_CHECK_BYTES", 0)
    artifact = machine("a").get_or_build(make_request(), builder()).artifact
    remote.fs.pipe_file(remote.one("a.txt"), b"alphb\n")
    reader = machine("b")
    assert reader.lookup("stage-a", artifact.key).problem is None  # sizes only: nothing is downloaded
    assert not reader.layout.artifact("stage-a", artifact.key).exists()
    assert "sha256 differs" in reader.lookup("stage-a", artifact.key, verify="full").problem
    assert "sha256 differs" in machine("b").lookup("stage-a", artifact.key).problem
    assert reader.get_or_build(make_request(), builder()).status == "built"
    assert machine("b").lookup("stage-a", artifact.key).artifact.digest == artifact.digest


def test_two_machines_that_build_one_key_end_with_one_artifact(machine, remote, make_request, builder, caplog):
    def meanwhile(files, status):
        def build(out, work):
            theirs.append(machine("b").get_or_build(request, builder(files)))
            return builder({"a.txt": "alpha\n"})(out, work)

        theirs = []
        outcome = machine("a").get_or_build(request, build)
        assert (outcome.status, outcome.artifact) == (status, theirs[0].artifact)
        assert (machine("a").open(outcome.artifact) / "a.txt").read_text() == files["a.txt"]

    request = make_request(n=1)
    meanwhile({"a.txt": "alpha\n"}, "rebuilt-same")
    request = make_request(n=2)
    with caplog.at_level(logging.WARNING):
        meanwhile({"a.txt": "beta\n"}, "cached")
    assert "another machine has published another content first" in caplog.text
    assert len([name for name in remote.files() if name.endswith("a.txt")]) == 2


def test_a_replaced_artifact_is_fetched_anew(machine, make_request, builder):
    old = machine("a").get_or_build(make_request(), builder()).artifact
    reader = machine("b")
    assert (reader.open(old) / "a.txt").read_text() == "alpha\n"
    new = machine("a").get_or_build(make_request(), builder({"a.txt": "beta\n"}), force=True).artifact
    assert reader.lookup("stage-a", old.key).artifact == new
    assert (reader.open(new) / "a.txt").read_text() == "beta\n"
    with pytest.raises(DamagedArtifact, match="its content is"):
        reader.open(old)


def test_runs(machine):
    store = machine()
    assert store.runs() == []
    store.write_run("run-1", "run.json", b"{}")
    assert (machine("b").runs(), machine("b").read_run("run-1")) == (["run-1"], b"{}")
    assert store.read_run("run-1", "other") is None


def test_default_cache_is_by_url(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_cache("s3://a/b").parent == tmp_path / ".cache" / "langadapt"
    assert default_cache("s3://a/b") != default_cache("s3://a/c")
    assert Store("memory://x").layout.root == default_cache("memory://x")
