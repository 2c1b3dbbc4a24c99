import json
import os
import threading

import pytest

from storage import external
from storage.external import digest_file_cached, digest_folder_cached
from storage.keys import file_digest, folder_digest


@pytest.fixture
def index(tmp_path):
    return tmp_path / "index"


@pytest.fixture
def hashed(monkeypatch):
    """Names of the files that are hashed, in order; files count as old enough to be remembered at once."""
    names = []

    def counting(path):
        names.append(path.name)
        return file_digest(path)

    monkeypatch.setattr(external, "file_digest", counting)
    monkeypatch.setattr(external, "CLOCK_TICK_NS", -1)
    return names


def test_a_file_is_hashed_once(tmp_path, index, hashed):
    path = tmp_path / "text.txt"
    path.write_text("saluton\n")
    link = tmp_path / "link"
    link.symlink_to(path)
    for name in (path, path, link):
        assert digest_file_cached(name, index) == file_digest(path)
    assert hashed == ["text.txt"]


def test_any_change_is_seen(tmp_path, index, hashed):
    path = tmp_path / "text.txt"
    path.write_text("aaaa")
    digest_file_cached(path, index)
    status = path.stat()
    path.write_text("bbbb")  # same size
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # same modification time
    assert digest_file_cached(path, index) == file_digest(path)
    path.write_text("longer")
    assert digest_file_cached(path, index) == file_digest(path)
    (tmp_path / "new").write_text("longer")
    (tmp_path / "new").rename(path)
    assert digest_file_cached(path, index) == file_digest(path)
    assert hashed == ["text.txt"] * 4


def test_a_file_of_this_very_moment_is_not_remembered(tmp_path, index, monkeypatch):
    path = tmp_path / "text.txt"
    path.write_text("a")
    monkeypatch.setattr(external, "CLOCK_TICK_NS", 3600 * 10**9)
    assert digest_file_cached(path, index) == file_digest(path)
    assert not index.exists()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"\xff", b'{"path": 1, "state": 2, "sha256": 3}'])
def test_a_damaged_entry_is_ignored_and_mended(tmp_path, index, hashed, content):
    path = tmp_path / "text.txt"
    path.write_text("a")
    digest_file_cached(path, index)
    (entry,) = index.iterdir()
    entry.write_bytes(content)
    assert digest_file_cached(path, index) == file_digest(path)
    assert digest_file_cached(path, index) == file_digest(path)
    assert len(hashed) == 2


def test_an_entry_of_another_file_is_not_believed(tmp_path, index, hashed):
    path = tmp_path / "text.txt"
    path.write_text("a")
    digest_file_cached(path, index)
    (entry,) = index.iterdir()
    values = json.loads(entry.read_text())
    entry.write_text(json.dumps(values | {"path": "/elsewhere", "sha256": "0" * 64}))
    assert digest_file_cached(path, index) == file_digest(path)


def test_a_change_during_the_reading_is_an_error(tmp_path, index, monkeypatch):
    path = tmp_path / "text.txt"
    path.write_text("a")

    def growing(file):
        file.write_text("ab")
        return "0" * 64

    monkeypatch.setattr(external, "file_digest", growing)
    with pytest.raises(RuntimeError, match=r"text\.txt was changed while it was read"):
        digest_file_cached(path, index)
    assert not index.exists()


def test_folders(tmp_path, index, hashed):
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    for name in ("config.json", "weights", "sub/extra", ".hidden"):
        (folder / name).write_text(name)
    assert digest_folder_cached(folder, index) == folder_digest(folder)
    assert digest_folder_cached(folder, index, ["weights"]) == folder_digest(folder, ["weights"])
    assert sorted(hashed) == ["config.json", "extra", "weights"]
    (folder / "weights").write_text("changed")
    assert digest_folder_cached(folder, index) == folder_digest(folder)
    assert hashed[3:] == ["weights"]


def test_missing_files_and_folders(tmp_path, index):
    with pytest.raises(FileNotFoundError, match="none"):
        digest_file_cached(tmp_path / "none", index)
    with pytest.raises(IsADirectoryError, match="a file is needed"):
        digest_file_cached(tmp_path, index)
    with pytest.raises(FileNotFoundError, match="none"):
        digest_folder_cached(tmp_path / "none", index)


def test_many_writers_at_once(tmp_path, index, hashed):
    paths = [tmp_path / f"{number}.txt" for number in range(3)]
    for path in paths:
        path.write_text(path.name)
    wrong = []

    def run():
        wrong.extend(path for path in paths * 5 if digest_file_cached(path, index) != file_digest(path))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(list(index.iterdir())) == 3


def test_an_index_that_cannot_be_written_costs_time_only(tmp_path, hashed):
    path = tmp_path / "text.txt"
    path.write_text("a")
    for _ in range(2):
        assert digest_file_cached(path, path / "index") == file_digest(path)
    assert len(hashed) == 2
