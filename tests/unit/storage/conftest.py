"""Fixtures for the store's tests."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from storage.store import BuildRequest, Built, InputEntry, Store

ROOT = Path(__file__).resolve().parents[3]

CHILD = """
import os, sys, signal
from pathlib import Path
from storage.store import Built, BuildRequest, Store

def reached(point):
    os.write(1, (point + "\\n").encode())

def stop_here(point):
    reached(point)
    while True:
        signal.pause()
"""


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves out fsync, which no test but those about it can tell, and which is slow on a busy disk."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty local store."""
    return Store(str(tmp_path / "store"))


@pytest.fixture
def make_request() -> Callable[..., BuildRequest]:
    """Makes requests: `make_request(size=3)`; inputs by `inputs={name: ref}`."""

    def make(stage: str = "stage-a", version: int = 1, inputs: dict | None = None, **config: object) -> BuildRequest:
        entries = {name: InputEntry(ref.stage, ref.key, ref.digest) for name, ref in (inputs or {}).items()}
        return BuildRequest(stage, version, config, entries)

    return make


class Builder:
    """A build that writes the given files (text or bytes by relative path) and counts its calls."""

    def __init__(self, files: dict[str, str | bytes], built: Built) -> None:
        self.files = files
        self.built = built
        self.calls = 0

    def __call__(self, out: Path, work: Path) -> Built:
        self.calls += 1
        for name, content in self.files.items():
            path = out / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return self.built


@pytest.fixture
def builder() -> Callable[..., Builder]:
    """Makes builds: `builder({"a.txt": "x"}, summary={...}, measurements=[...])`."""

    def make(files: dict | None = None, summary: dict | None = None, measurements: list | None = None) -> Builder:
        return Builder(files or {"a.txt": "alpha\n", "sub/b.bin": b"\0" * 40}, Built(summary or {}, measurements or []))

    return make


@pytest.fixture
def child() -> Iterator[Callable[[str, object], subprocess.Popen]]:
    """Starts a Python process on `CHILD` + a script, its standard output a pipe; all are killed at the end."""
    started: list[subprocess.Popen] = []

    def start(script: str, *arguments: object) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-c", CHILD + script, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
