import logging
import os
import shutil

import pytest

from storage import verify
from storage.manifest import DamagedArtifact
from storage.store import Store


def flip(path):
    """Change one byte and set the times back."""
    status = path.stat()
    path.chmod(0o644)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    path.chmod(0o444)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def delete(folder):
    (folder / "a.txt").unlink()


def shorten(folder):
    (folder / "sub" / "b.bin").chmod(0o644)
    (folder / "sub" / "b.bin").write_bytes(b"\0" * 12)


def flip_byte(folder):
    flip(folder / "sub" / "b.bin")


def truncate_manifest(folder):
    path = folder / "manifest.json"
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:100])


def alter_manifest(folder):
    path = folder / "manifest.json"
    path.chmod(0o644)
    path.write_bytes(path.read_bytes().replace(b'"bytes": 46', b'"bytes": 47'))


def delete_manifest(folder):
    (folder / "manifest.json").unlink()


def add_file(folder):
    (folder / "sub" / "more").write_text("")


def add_link(folder):
    (folder / "link").symlink_to("a.txt")


def empty(folder):
    shutil.rmtree(folder)
    folder.mkdir()


DAMAGES = [
    (delete, "file a.txt is missing"),
    (shorten, "file sub/b.bin: 12 bytes instead of 40"),
    (flip_byte, "file sub/b.bin: sha256 differs"),
    (truncate_manifest, "manifest.json is not JSON (100 bytes"),
    (alter_manifest, "manifest.json was altered"),
    (delete_manifest, "manifest.json is missing"),
    (add_file, "file sub/more is not in the manifest"),
    (add_link, "link is not a regular file"),
    (empty, "manifest.json is missing"),
]


@pytest.mark.parametrize(("damage", "reason"), DAMAGES, ids=[damage.__name__ for damage, _ in DAMAGES])
def test_damage_is_found_said_and_repaired(store, make_request, builder, damage, reason):
    request, build, problems = make_request(), builder(), []
    artifact = store.get_or_build(request, build).artifact
    damage(store.open(artifact))
    lookup = store.lookup("stage-a", request.key)
    assert lookup.artifact is None
    assert lookup.problem.startswith(reason)
    with pytest.raises(DamagedArtifact, match="run its stage again"):
        Store(store.url).open(artifact)
    outcome = store.get_or_build(request, build, on_problem=problems.append)
    assert (outcome.status, outcome.artifact.digest, build.calls) == ("built", artifact.digest, 2)
    assert len(problems) == 1
    assert reason in problems[0]
    assert store.lookup("stage-a", request.key).problem is None
    assert not list((store.layout.root / "trash").iterdir())


def test_damage_is_logged_by_default(store, make_request, builder, caplog):
    artifact = store.get_or_build(make_request(), builder()).artifact
    delete(store.open(artifact))
    with caplog.at_level(logging.WARNING):
        store.get_or_build(make_request(), builder())
    assert f"artifact stage-a {artifact.key} is built again: file a.txt is missing" in caplog.text


def test_an_artifact_of_another_key_is_not_believed(store, make_request, builder):
    one = store.get_or_build(make_request(n=1), builder()).artifact
    other = make_request(n=2)
    target = store.layout.artifact("stage-a", other.key)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(store.open(one), target)
    assert "belongs to another artifact" in store.lookup("stage-a", other.key).problem


def test_size_checks_no_content(tmp_path, make_request, builder):
    store = Store(str(tmp_path), verify="size")
    artifact = store.get_or_build(make_request(), builder()).artifact
    flip_byte(store.open(artifact))
    assert store.lookup("stage-a", artifact.key).artifact == artifact
    assert "sha256 differs" in store.lookup("stage-a", artifact.key, verify="full").problem
    shorten(store.open(artifact))
    assert "12 bytes instead of 40" in store.lookup("stage-a", artifact.key).problem


@pytest.fixture
def hashed(monkeypatch):
    """Names of the files that a check reads, in order."""
    names = []

    def counting(path):
        names.append(path.name)
        return digest(path)

    digest = verify.file_digest
    monkeypatch.setattr(verify, "file_digest", counting)
    return names


def test_auto_hashes_a_large_artifact_only_where_it_looks_changed(store, make_request, builder, monkeypatch, hashed):
    artifact = store.get_or_build(make_request(), builder()).artifact
    assert store.lookup("stage-a", artifact.key).artifact
    assert hashed == ["a.txt", "b.bin"]
    monkeypatch.setattr(verify, "FULL_CHECK_BYTES", 45)
    hashed.clear()
    assert store.lookup("stage-a", artifact.key).artifact
    assert hashed == []  # the stamp of publishing fits
    os.utime(store.open(artifact) / "a.txt")
    assert store.lookup("stage-a", artifact.key).artifact
    assert hashed == ["a.txt"]
    assert store.lookup("stage-a", artifact.key).artifact
    assert hashed == ["a.txt"]  # the new times are remembered
    flip_byte(store.open(artifact))  # size and modification time as before: the change time tells
    assert "sub/b.bin: sha256 differs" in store.lookup("stage-a", artifact.key).problem


@pytest.mark.parametrize("content", [None, b"", b"[]", b'{"checksum": "x", "files": {}}', b'{"checksum": 1'])
def test_without_a_good_stamp_everything_is_hashed(store, make_request, builder, monkeypatch, hashed, content):
    monkeypatch.setattr(verify, "FULL_CHECK_BYTES", 0)
    artifact = store.get_or_build(make_request(), builder()).artifact
    stamp = store.layout.stamp("stage-a", artifact.key)
    stamp.unlink()
    if content is not None:
        stamp.write_bytes(content)
    for _ in range(2):
        assert store.lookup("stage-a", artifact.key).artifact
    assert hashed == ["a.txt", "b.bin"]


def test_what_a_lookup_found_right_is_not_hashed_again(store, make_request, builder, hashed):
    artifact = store.get_or_build(make_request(), builder()).artifact
    reader = Store(store.url)
    assert reader.lookup("stage-a", artifact.key).artifact
    folder = reader.open(artifact)
    assert hashed == ["a.txt", "b.bin"]
    flip_byte(folder)
    assert reader.lookup("stage-a", artifact.key).problem
    with pytest.raises(DamagedArtifact, match="sha256 differs"):
        reader.open(artifact)


def test_open_checks_once_in_a_process(store, make_request, builder, hashed):
    artifact = store.get_or_build(make_request(), builder()).artifact
    reader = Store(store.url)
    for _ in range(3):
        reader.open(artifact)
    assert hashed == ["a.txt", "b.bin"]
    delete(reader.open(artifact))
    store.get_or_build(make_request(), builder({"a.txt": "other"}))
    with pytest.raises(DamagedArtifact, match="its content is"):
        reader.open(artifact)
    shutil.rmtree(store.layout.artifact("stage-a", artifact.key))
    with pytest.raises(DamagedArtifact, match="it is not in the store"):
        reader.open(artifact)
    with pytest.raises(DamagedArtifact, match="is not in"):
        reader.manifest(artifact)


def test_a_store_that_cannot_remember_still_checks(store, make_request, builder, monkeypatch):
    artifact = store.get_or_build(make_request(), builder()).artifact
    store.layout.stamp("stage-a", artifact.key).unlink()

    def refuse(path, data, **options):
        raise PermissionError(13, "Read-only file system", str(path))

    monkeypatch.setattr(verify, "write_atomic", refuse)
    assert store.lookup("stage-a", artifact.key).artifact == artifact
