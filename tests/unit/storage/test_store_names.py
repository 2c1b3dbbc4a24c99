import pytest

from storage.names import check_relative_path
from storage.store import ArtifactRef, BuildRequest, Store

KEY = "a" * 64
BAD_STAGES = ["", ".", "..", "a/b", "/a", "../a", "a\\b", "a\n", "a\0", "-a", "é", "a" * 101]
BAD_KEYS = ["", "..", "A" * 64, "a" * 63, "a" * 65, "../" + "a" * 61, "/" + "a" * 63, "a" * 64 + "\n"]


@pytest.mark.parametrize("stage", BAD_STAGES)
def test_a_stage_cannot_leave_the_store(store, stage, builder):
    ref = ArtifactRef(stage, KEY, KEY, 0, 0.0)
    for call in (
        lambda: store.lookup(stage, KEY),
        lambda: store.get_or_build(BuildRequest(stage, 1, {}), builder()),
        lambda: store.open(ref),
        lambda: store.manifest(ref),
        lambda: list(store.manifests(stage)),
        lambda: store.measurements(ref),
        lambda: store.work_dir(stage, KEY),
        lambda: store.locked(stage, KEY),
    ):
        with pytest.raises(ValueError, match="stage name"):
            call()


@pytest.mark.parametrize("key", BAD_KEYS)
def test_a_key_cannot_leave_the_store(store, key):
    ref = ArtifactRef("s", key, KEY, 0, 0.0)
    for call in (
        lambda: store.lookup("s", key),
        lambda: store.open(ref),
        lambda: store.manifest(ref),
        lambda: store.measurements(ref),
        lambda: store.work_dir("s", key),
    ):
        with pytest.raises(ValueError, match="artifact key"):
            call()


@pytest.mark.parametrize("url", ["", "memory://names-test"])
@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/a", "../a", ".hidden", "a\0b", "a" * 201])
def test_a_run_cannot_leave_the_store(tmp_path, url, name):
    store = Store(url or str(tmp_path), cache=tmp_path / "cache")
    for run_id, file in ((name, "run.json"), ("run", name)):
        with pytest.raises(ValueError, match="starting with a letter or digit"):
            store.write_run(run_id, file, b"")
        with pytest.raises(ValueError, match="starting with a letter or digit"):
            store.read_run(run_id, file)
    assert not list(tmp_path.rglob("*"))


@pytest.mark.parametrize("path", ["", "/a", "a/../b", "..", "./a", "a//b", "a/", "a\\b", "a\nb", "a\0", "\udcff"])
def test_bad_file_names(path):
    with pytest.raises(ValueError, match="file name"):
        check_relative_path(path)


@pytest.mark.parametrize("path", ["a", "a/b.c", "…", ".hidden", "a b", "..a", "a:b"])
def test_good_file_names(path):
    assert check_relative_path(path) == path
