"""Several processes on one key, and processes killed at every point of a build."""

import pytest

from storage.store import BuildRequest, Built, Store

BUILD = """
store = Store(sys.argv[1], cache=Path(sys.argv[2]) / 'cache')
request = BuildRequest('slow', 1, {'n': 1})
point = sys.argv[3]
log = Path(sys.argv[2]) / 'calls'

def build(out, work):
    with log.open('a') as file:
        file.write('build\\n')
    (work / 'checkpoint').write_text('5')
    (out / 'first').write_text('1' * 100)
    if point == 'build':
        stop_here('build')
    if point == 'wait':
        reached('building')
        sys.stdin.readline()
    (out / 'second').write_text('2' * 100)
    return Built()

def stop_at(owner, name, where):
    real = getattr(owner, name)
    def patched(*arguments):
        if where(*arguments):
            stop_here(point)
        return real(*arguments)
    setattr(owner, name, patched)

import storage.publish, storage.files, storage.backend_local, storage.store
if point == 'hash':
    stop_at(storage.publish, 'file_digest', lambda path: path.name == 'second')
if point == 'manifest':
    stop_at(storage.files.Path, 'replace', lambda path, target: target.name == 'manifest.json')
if point == 'rename':
    stop_at(storage.files.Path, 'rename', lambda path, target: path.name == 'out')
if point == 'stamp':
    stop_at(storage.backend_local, 'write_stamp', lambda *arguments: True)
if point == 'cleaning':
    stop_at(storage.store, 'remove_tree', lambda path: 'work' in path.parts)
if point.startswith('upload'):
    from fsspec.implementations.local import LocalFileSystem
if point == 'upload':
    stop_at(LocalFileSystem, 'put_file', lambda fs, source, target: target.endswith('second'))
if point == 'upload-manifest':
    stop_at(LocalFileSystem, 'pipe_file', lambda fs, path, data: path.endswith('manifest.json'))
if point == 'keep-copy':
    stop_at(storage.backend_local.LocalBackend, 'publish', lambda *arguments: True)
waiting = []
def on_wait(seconds, holder):
    if not waiting:
        reached('waiting ' + str(holder.pid if holder else None))
        waiting.append(1)
outcome = store.get_or_build(request, build, on_wait=on_wait)
reached(outcome.status)
"""

REQUEST = BuildRequest("slow", 1, {"n": 1})


def rebuild(out, work):
    (out / "first").write_text("1" * 100)
    (out / "second").write_text("2" * 100)
    return Built({"checkpoint": (work / "checkpoint").read_text() if (work / "checkpoint").exists() else None})


def left_over(store):
    return [path for area in ("staging", "trash") for path in (store.layout.root / area).rglob("*") if path.is_file()]


@pytest.mark.parametrize("point", ["build", "hash", "manifest", "rename", "stamp", "cleaning"])
def test_killed_at_any_point_it_is_whole_or_not_there(tmp_path, child, point):
    store = Store(str(tmp_path / "store"))
    process = child(BUILD, store.url, tmp_path, point)
    assert process.stdout.readline().strip() == point
    process.kill()
    process.wait()
    published = point in ("stamp", "cleaning")
    lookup = store.lookup("slow", REQUEST.key)
    assert (lookup.artifact is not None, lookup.problem) == (published, None)
    if not published:
        assert left_over(store)
    outcome = store.get_or_build(REQUEST, rebuild)
    assert outcome.status == ("cached" if published else "built")
    if not published:
        assert store.manifest(outcome.artifact).summary == {"checkpoint": "5"}
        assert not left_over(store)


@pytest.mark.parametrize("point", ["build", "upload", "upload-manifest", "keep-copy"])
def test_killed_during_an_upload_it_is_whole_or_not_there(tmp_path, child, point):
    store = Store(f"local://{tmp_path}/remote", cache=tmp_path / "cache")
    process = child(BUILD, store.url, tmp_path, point)
    assert process.stdout.readline().strip() == point
    process.kill()
    process.wait()
    published = point == "keep-copy"
    for reader in (store, Store(store.url, cache=tmp_path / "other")):
        lookup = reader.lookup("slow", REQUEST.key)
        assert (lookup.artifact is not None, lookup.problem) == (published, None)
    outcome = store.get_or_build(REQUEST, rebuild)
    assert outcome.status == ("cached" if published else "built")
    assert (store.open(outcome.artifact) / "second").read_text() == "2" * 100


def test_killed_while_it_replaces_a_damaged_artifact(tmp_path, child):
    store = Store(str(tmp_path / "store"))
    artifact = store.get_or_build(REQUEST, rebuild).artifact
    (store.open(artifact) / "second").unlink()
    process = child(BUILD, store.url, tmp_path, "rename")
    assert process.stdout.readline().strip() == "rename"  # the old folder is in the trash, the new one not yet there
    process.kill()
    process.wait()
    assert store.lookup("slow", REQUEST.key).artifact is None
    assert store.get_or_build(REQUEST, rebuild).artifact.digest == artifact.digest


@pytest.mark.parametrize(("url", "others"), [("{}/store", 1), ("{}/store", 3), ("local://{}/remote", 1)])
def test_of_several_processes_one_builds(tmp_path, child, url, others):
    url = url.format(tmp_path)
    first = child(BUILD, url, tmp_path, "wait")
    assert first.stdout.readline() == "building\n"
    waiting = [child(BUILD, url, tmp_path, "none") for _ in range(others)]
    for process in waiting:
        assert process.stdout.readline() == f"waiting {first.pid}\n"
    first.stdin.write("go\n")
    first.stdin.flush()
    assert first.stdout.readline() == "built\n"
    assert [process.stdout.readline() for process in waiting] == ["cached\n"] * others
    assert [process.wait() for process in (first, *waiting)] == [0] * (others + 1)
    assert (tmp_path / "calls").read_text() == "build\n"


def test_the_lock_of_a_killed_builder_is_free(tmp_path, child):
    url = str(tmp_path / "store")
    first = child(BUILD, url, tmp_path, "build")
    assert first.stdout.readline() == "build\n"
    second = child(BUILD, url, tmp_path, "none")
    assert second.stdout.readline() == f"waiting {first.pid}\n"
    first.kill()
    assert second.stdout.readline() == "built\n"
    assert (tmp_path / "calls").read_text() == "build\n" * 2
