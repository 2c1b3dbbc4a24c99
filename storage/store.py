"""The artifact store: content-addressed, atomic, checked on every read.

What a stage built is found again by its key (see `storage.keys`). `Store.get_or_build` is the way in: it returns the
artifact if it is there and intact, and otherwise builds it under a lock, so that of several processes one builds and
the others wait and get its artifact.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path

from storage.artifact import (
    ArtifactRef,
    BuildOutcome,
    BuildRequest,
    Built,
    Lookup,
    Status,
    checked_ref,
)
from storage.backend import Backend
from storage.backend_local import LocalBackend
from storage.backend_remote import RemoteBackend, default_cache
from storage.files import remove_tree
from storage.layout import Layout
from storage.locks import OnWait, hold
from storage.manifest import DamagedArtifact, InputEntry, Manifest, summary_values
from storage.publish import describe, seal_files, write_measurements
from storage.verify import Verify, read_manifest

__all__ = [
    "ArtifactRef",
    "BuildOutcome",
    "BuildRequest",
    "Built",
    "DamagedArtifact",
    "InputEntry",
    "Lookup",
    "Manifest",
    "Status",
    "Store",
    "Verify",
]

Build = Callable[[Path, Path], Built]

_log = logging.getLogger(__name__)


class Store:
    """A store in a local folder or behind any fsspec URL.

    Making one touches nothing: folders come with the first write. It may be shared by threads.

    Attributes:
        url: where it is, as given.
        verify: how files are checked when they are looked up or opened. 'size': they are there and have the right
            size; 'full': their sha256 too; 'auto': sha256 up to 64 MiB an artifact, and above that of the files whose
            size, times or inode differ from when they were hashed last.
        backend: the place where artifacts are kept.
    """

    def __init__(self, url: str, *, cache: Path | None = None, verify: Verify = "auto") -> None:
        """See the class.

        Args:
            url: a local path, a file:// URL, or any other fsspec URL (s3://..., memory://...; local:// is the local
                disk treated like remote storage).
            cache: folder for local copies, staging and locks of a remote store; `default_cache` if None.
            verify: see the class.

        Raises:
            ValueError: `verify` or the URL's protocol is not known.
            ImportError: the protocol needs a package that is not installed.
        """
        if verify not in ("auto", "full", "size"):
            raise ValueError(f"verify {verify!r}: one of 'auto', 'full', 'size'")
        self.url = str(url)
        self.verify: Verify = verify
        self.backend: Backend = _backend(self.url, cache)
        self._verified: dict[tuple[str, str], str] = {}  # digest found right in this process

    @property
    def layout(self) -> Layout:
        """The local folder: the store itself, or the cache of a remote one."""
        return self.backend.layout

    @property
    def is_local(self) -> bool:
        """Whether the artifacts are in a local folder."""
        return isinstance(self.backend, LocalBackend)

    def lookup(self, stage: str, key: str, *, verify: Verify | None = None) -> Lookup:
        """The artifact if it is there and intact, else what is wrong with it; takes no lock.

        Args:
            stage: its stage.
            key: its key.
            verify: how to check the files; None takes the store's way. 'size' never downloads.

        Raises:
            ValueError: stage or key cannot be one.
            OSError: the store cannot be read.
        """
        checked_ref(stage, key)
        try:
            manifest = self.backend.find(stage, key, verify or self.verify)
        except DamagedArtifact as damage:
            self._verified.pop((stage, key), None)
            return Lookup(None, damage.reason)
        if manifest is None:
            return Lookup(None)
        if verify is None and self.is_local:
            self._verified[stage, key] = manifest.digest
        return Lookup(ArtifactRef.of(manifest))

    def get_or_build(
        self,
        request: BuildRequest,
        build: Build,
        *,
        force: bool = False,
        on_wait: OnWait | None = None,
        on_problem: Callable[[str], None] | None = None,
    ) -> BuildOutcome:
        """The artifact for `request`: the one that is there, or a new one.

        Args:
            request: what is wanted.
            build: writes the files into its first argument, an empty folder; the second one keeps its content until
                the artifact is published, also over a crash.
            force: build even if it is there. With the same content the old artifact stays, otherwise it is replaced.
            on_wait: called every 0.2 s while another process builds the same key, with the seconds waited and the
                holder of the lock.
            on_problem: called with what is wrong with a damaged artifact before it is rebuilt; logged if None.

        Raises:
            TypeError: the config or the summary is not JSON.
            ValueError: a name cannot be one; the build left no files, or something that is no regular file.
            OSError: the store cannot be read or written (with the path).
            Exception: whatever `build` raises; its work folder stays.
        """
        stage, key = request.stage, request.key
        if not force and (found := self.lookup(stage, key).artifact) is not None:
            return BuildOutcome(found, "cached")
        with self.locked(stage, key, on_wait):
            before = self.lookup(stage, key)
            if before.artifact is not None and not force:
                return BuildOutcome(before.artifact, "cached")
            if before.problem is not None:
                self._report(f"artifact {stage} {key} is built again: {before.problem}", on_problem)
            for left_over in self.layout.staging_of(stage, key, "build"):
                remove_tree(left_over)
            staging = self.layout.new_staging(stage, key, "build")
            try:
                return self._build(request, build, staging, force)
            finally:
                remove_tree(staging)

    def _build(self, request: BuildRequest, build: Build, staging: Path, force: bool) -> BuildOutcome:
        stage, key = request.stage, request.key
        out, work = staging / "out", self.layout.work(stage, key)
        out.mkdir(parents=True)
        work.mkdir(parents=True, exist_ok=True)
        started, clock = datetime.now(UTC), time.perf_counter()
        built = build(out, work)
        seconds = time.perf_counter() - clock
        summary = summary_values(built.summary)
        measurements = staging / "measurements.parquet" if built.measurements else None
        if measurements is not None:
            write_measurements(built.measurements, measurements)
        manifest = describe(request, seal_files(out), summary, started, seconds)
        status: Status = "built"
        there = self.lookup(stage, key).artifact  # the forced one, or one that another machine has uploaded meanwhile
        if there is not None and (there.digest == manifest.digest or not force):
            status = "rebuilt-same" if there.digest == manifest.digest else "cached"
            if status == "cached":
                _log.warning("%s %s: another machine has published another content first; it stays", stage, key)
            ref = there
        else:
            if there is not None:
                _log.info("%s %s: the forced build gave another content; the old one is replaced", stage, key)
            self.backend.publish(out, manifest, measurements)
            ref = ArtifactRef.of(manifest)
            self._verified[stage, key] = ref.digest
        remove_tree(work)
        return BuildOutcome(ref, status)

    def _report(self, problem: str, on_problem: Callable[[str], None] | None) -> None:
        if on_problem is None:
            _log.warning("%s", problem)
        else:
            on_problem(problem)

    def locked(self, stage: str, key: str, on_wait: OnWait | None = None) -> AbstractContextManager[None]:
        """Holds the lock of the key in a with statement; it dies with this process."""
        return hold(self.layout.lock(stage, key), on_wait)

    def open(self, ref: ArtifactRef) -> Path:
        """Local folder with the artifact's files (and manifest.json); for reading only.

        The files are checked the first time in this process (by a lookup, too, in a local store).

        Raises:
            DamagedArtifact: it is gone, damaged or has another content; running its stage again rebuilds it.
            OSError: the store cannot be read.
        """
        folder = self.layout.artifact(ref.stage, ref.key)
        if self._verified.get((ref.stage, ref.key)) == ref.digest and _holds(folder, ref):
            return folder
        try:
            folder = self.backend.fetch(ref.stage, ref.key, ref.digest, self.verify)
        except DamagedArtifact as damage:
            raise DamagedArtifact(
                f"artifact {ref.stage} {ref.key} in {self.url}: {damage.reason}; run its stage again to rebuild it"
            ) from damage
        self._verified[ref.stage, ref.key] = ref.digest
        return folder

    def manifest(self, ref: ArtifactRef) -> Manifest:
        """The manifest of the artifact.

        Raises:
            DamagedArtifact: it is gone or damaged.
        """
        manifest = self.backend.manifest(ref.stage, ref.key)
        if manifest is None:
            raise DamagedArtifact(f"artifact {ref.stage} {ref.key} is not in {self.url}")
        return manifest

    def manifests(self, stage: str | None = None) -> Iterator[Manifest]:
        """The manifests of all artifacts (of a stage); damaged ones are left out with a warning in the log."""
        for name, key in self.backend.references(stage):
            try:
                manifest = self.backend.manifest(name, key)
            except DamagedArtifact as damage:
                _log.warning("artifact %s %s is left out: %s", name, key, damage.reason)
                continue
            if manifest is not None:
                yield manifest

    def measurements(self, ref: ArtifactRef) -> Path | None:
        """Parquet file with the measurements of the build, None if there are none."""
        return self.backend.measurements(ref.stage, ref.key)

    def work_dir(self, stage: str, key: str) -> Path:
        """Folder that a build of the key keeps over a crash; it may not exist."""
        return self.layout.work(stage, key)

    def write_run(self, run_id: str, name: str, data: bytes) -> str:
        """Write the file `name` of the record of a run, at once or not at all; returns where it is.

        Raises:
            ValueError: the id or the name cannot be part of a path.
            OSError: it cannot be written.
        """
        return self.backend.write_run(run_id, name, data)

    def read_run(self, run_id: str, name: str = "run.json") -> bytes | None:
        """Content of the file `name` of the record of a run, None if it is not there."""
        return self.backend.read_run(run_id, name)

    def runs(self) -> list[str]:
        """Ids of the runs with a record, sorted."""
        return self.backend.runs()


def _holds(folder: Path, ref: ArtifactRef) -> bool:
    """Whether the content of `ref` is in `folder`, going by the manifest alone."""
    try:
        manifest = read_manifest(folder, ref.stage, ref.key)
    except DamagedArtifact:
        return False
    return manifest is not None and manifest.digest == ref.digest


def _backend(url: str, cache: Path | None) -> Backend:
    if "://" not in url and "::" not in url:
        return LocalBackend(Layout(Path(url).expanduser().absolute()))
    if url.startswith("file://"):
        path = url.removeprefix("file://")
        if not path.startswith("/"):
            raise ValueError(f"store URL {url!r}: file:// takes an absolute path (three slashes)")
        return LocalBackend(Layout(Path(path)))
    import fsspec

    fs, base = fsspec.core.url_to_fs(url)
    return RemoteBackend(fs, base, Layout((cache or default_cache(url)).expanduser().absolute()))
