import json
import os
import signal
import threading

import pytest

from storage.locks import LockHolder, hold, read_holder, try_hold


def test_excludes_another_process_until_it_is_killed(tmp_path, child):
    path = tmp_path / "locks" / "k.lock"
    process = child(
        "from storage.locks import hold\nwith hold(Path(sys.argv[1])):\n    stop_here('held')\n", path
    )  # fmt: skip
    assert process.stdout.readline() == "held\n"
    with try_hold(path) as free:
        assert not free
    waits = []

    def on_wait(seconds: float, holder: LockHolder | None) -> None:
        waits.append((seconds, holder))
        process.kill()
        process.wait()

    with hold(path, on_wait, poll_seconds=0.001):
        assert read_holder(path).pid == os.getpid()
    assert waits[0][0] < 5
    assert waits[0][1].pid == process.pid
    assert read_holder(path) is None


def test_excludes_another_thread(tmp_path):
    path = tmp_path / "k.lock"
    with hold(path):
        seen = []

        def look() -> None:
            with try_hold(path) as free:
                seen.append(free)

        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        assert seen == [False]
    with try_hold(path) as free:
        assert free


def test_a_wait_can_be_interrupted(tmp_path):
    path = tmp_path / "k.lock"

    def interrupt(seconds: float, holder: LockHolder | None) -> None:
        signal.raise_signal(signal.SIGINT)

    with hold(path), pytest.raises(KeyboardInterrupt), hold(path, interrupt, poll_seconds=0.001):
        pass


def test_is_free_after_an_error_in_the_body(tmp_path):
    path = tmp_path / "k.lock"
    with pytest.raises(ZeroDivisionError), hold(path):
        _ = 1 / 0
    with try_hold(path) as free:
        assert free


def test_a_removed_lock_file_does_not_let_two_in(tmp_path):
    path = tmp_path / "k.lock"
    entered = threading.Event()
    waiting = threading.Event()
    release = threading.Event()

    def second() -> None:
        with hold(path, lambda seconds, holder: waiting.set(), poll_seconds=0.001):
            entered.set()
            release.wait(20)

    with hold(path):
        thread = threading.Thread(target=second)
        thread.start()
        assert waiting.wait(20)
        path.unlink()  # by a collector that holds the lock
    assert entered.wait(20)
    with try_hold(path) as free:
        assert not free  # the second one holds the file that is there now
    release.set()
    thread.join()


def test_a_forked_child_does_not_keep_the_lock(tmp_path, child):
    path = tmp_path / "k.lock"
    script = """
from storage.locks import hold
with hold(Path(sys.argv[1])):
    if os.fork() == 0:
        reached('child ' + str(os.getpid()))
        signal.pause()
    stop_here('parent')
"""
    process = child(script, path)
    lines = sorted(process.stdout.readline().split() for _ in range(2))
    assert lines[1] == ["parent"]
    orphan = int(lines[0][1])
    process.kill()
    process.wait()
    with try_hold(path) as free:
        assert free
    os.kill(orphan, signal.SIGKILL)  # it was still alive


@pytest.mark.parametrize("content", [b"", b"{", b"[]", json.dumps({"pid": "x", "host": 1}).encode()])
def test_an_unreadable_note_is_no_error(tmp_path, content):
    path = tmp_path / "k.lock"
    path.write_bytes(content)
    assert read_holder(path) is None
    with hold(path):
        assert read_holder(path).pid == os.getpid()


def test_error_names_the_path(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"), hold(tmp_path / "file" / "k.lock"):
        pass
