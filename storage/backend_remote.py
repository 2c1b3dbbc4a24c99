"""Artifacts behind an fsspec file system (object storage), read through a checked local copy.

    <base>/artifacts/<stage>/<key[:2]>/<key>/<digest>/...    the files
    <base>/artifacts/<stage>/<key[:2]>/<key>/manifest.json   written last: without it nothing is there
    <base>/measurements/, <base>/runs/                       as in a local store

The files are under their content digest, so that two machines that upload the same key never mix their files: the
manifest that is written last decides, and names a complete set. The lock on a key holds between the processes that
share the cache folder, that is, on one machine; two machines may build one key twice, and end with one artifact.
"""

import logging
import os
import posixpath
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from storage.backend import Upload
from storage.backend_local import LocalBackend
from storage.files import remove_tree, write_atomic
from storage.keys import text_digest
from storage.layout import Layout
from storage.locks import hold
from storage.manifest import MANIFEST_NAME, DamagedArtifact, Manifest, manifest_json, parse_manifest
from storage.names import check_key, check_name, check_relative_path, check_stage
from storage.publish import seal_files
from storage.verify import FULL_CHECK_BYTES, Check, belonging, check_sizes

_log = logging.getLogger(__name__)


class RemoteBackend:
    """Artifacts below `base` on the fsspec file system `fs`; `layout` is the local cache."""

    def __init__(self, fs: Any, base: str, layout: Layout) -> None:
        self.layout = layout
        self._fs = fs
        self._base = base.rstrip("/")
        self._cache = LocalBackend(layout)

    def find(self, stage: str, key: str, check: Check) -> Manifest | None:
        """The manifest of the artifact; None if nothing is there.

        Existence and sizes are checked in the remote place. Hashes are taken of the local copy, which is what will be
        read: 'full' always makes one, 'auto' up to `FULL_CHECK_BYTES` or when the last download was damaged.

        Raises:
            DamagedArtifact: something is there and is not intact.
            OSError: it cannot be read.
        """
        manifest = self.manifest(stage, key)
        if manifest is None:
            return None
        folder = self._files(manifest)
        check_sizes(manifest, {path: int(info["size"]) for path, info in self._list(folder).items()})
        small = check == "auto" and manifest.bytes <= FULL_CHECK_BYTES
        if check == "full" or small or self.layout.suspect(stage, key).exists():
            self._local_copy(manifest, check)
        return manifest

    def fetch(self, stage: str, key: str, digest: str, check: Check) -> Path:
        """Folder of the local copy, made if need be, of the artifact with the content `digest`.

        Raises:
            DamagedArtifact: it is gone, damaged or has another content.
        """
        manifest = self.manifest(stage, key)
        if manifest is None:
            raise DamagedArtifact("it is not in the store")
        if manifest.digest != digest:
            raise DamagedArtifact(f"its content is {manifest.digest} now instead of {digest}")
        return self._local_copy(manifest, check)

    def local_folder(self, manifest: Manifest) -> Path | None:
        """Folder of the local copy if there is one and it looks intact."""
        if self._cache.manifest(manifest.stage, manifest.key) is None:
            return None
        return self._cache.local_folder(manifest)

    def manifest(self, stage: str, key: str) -> Manifest | None:
        """The manifest alone, without a look at the files; None if nothing is there.

        Raises:
            DamagedArtifact: it is damaged.
        """
        try:
            data = self._fs.cat_file(f"{self._artifact(stage, key)}/{MANIFEST_NAME}")
        except FileNotFoundError:
            return None
        return belonging(parse_manifest(data), stage, key)

    def _local_copy(self, manifest: Manifest, check: Check) -> Path:
        folder = self._intact_copy(manifest, check)
        if folder is None:
            with hold(self.layout.fetch_lock(manifest.stage, manifest.key)):
                folder = self._intact_copy(manifest, check) or self._download(manifest)
        return folder

    def _intact_copy(self, manifest: Manifest, check: Check) -> Path | None:
        try:
            found = self._cache.find(manifest.stage, manifest.key, check)
        except DamagedArtifact as error:
            _log.warning("local copy of %s %s: %s; fetching it again", manifest.stage, manifest.key, error.reason)
            return None
        if found is None or found.digest != manifest.digest:
            return None
        return self.layout.artifact(manifest.stage, manifest.key)

    def _download(self, manifest: Manifest) -> Path:
        stage, key = manifest.stage, manifest.key
        for old in self.layout.staging_of(stage, key, "fetch"):
            remove_tree(old)
        staged = self.layout.new_staging(stage, key, "fetch")
        try:
            for entry in manifest.files:
                target = staged / check_relative_path(entry.path)
                target.parent.mkdir(parents=True, exist_ok=True)
                self._fs.get_file(f"{self._files(manifest)}/{entry.path}", str(target))
            for entry, got in zip(manifest.files, seal_files(staged), strict=True):
                if got != entry:
                    raise DamagedArtifact(f"file {entry.path}: sha256 differs from the manifest after the download")
            self._cache.publish(staged, manifest, self.measurements(stage, key))
        except (FileNotFoundError, DamagedArtifact) as error:
            self._suspect(stage, key)
            if isinstance(error, DamagedArtifact):
                raise
            raise DamagedArtifact(f"a file is missing: {error}") from error
        finally:
            remove_tree(staged)
        self.layout.suspect(stage, key).unlink(missing_ok=True)
        return self.layout.artifact(stage, key)

    def _suspect(self, stage: str, key: str) -> None:
        write_atomic(self.layout.suspect(stage, key), b"the last download was damaged\n", durable=False)

    def references(self, stage: str | None = None) -> Iterator[tuple[str, str]]:
        """(stage, key) of everything with a manifest, intact or not, in order."""
        return iter(sorted({(name, key) for name, key, rest in self._objects(stage) if rest == MANIFEST_NAME}))

    def _objects(self, stage: str | None = None) -> dict[tuple[str, str, str], dict[str, Any]]:
        """Information on every file of the artifacts by (stage, key, path inside the artifact)."""
        below = "" if stage is None else f"/{check_stage(stage)}"
        found = {}
        for path, info in self._list(f"{self._base}/artifacts{below}").items():
            parts = (path if stage is None else f"{stage}/{path}").split("/", 3)
            if len(parts) == 4 and parts[2][:2] == parts[1]:
                found[parts[0], parts[2], parts[3]] = info
        return found

    def publish(self, staged: Path, manifest: Manifest, measurements: Path | None) -> None:
        """Upload the sealed files in `staged`, the manifest last, and keep them as the local copy.

        Raises:
            OSError: the upload failed; no manifest names what was uploaded.
        """
        stage, key = manifest.stage, manifest.key
        for entry in manifest.files:
            self._upload(staged / entry.path, f"{self._files(manifest)}/{entry.path}")
        if measurements is not None:
            self._upload(measurements, self._measurements(stage, key))
        self._write(f"{self._artifact(stage, key)}/{MANIFEST_NAME}", manifest_json(manifest))
        self.layout.suspect(stage, key).unlink(missing_ok=True)
        with hold(self.layout.fetch_lock(stage, key)):  # another process may be fetching what was there before
            self._cache.publish(staged, manifest, measurements)

    def measurements(self, stage: str, key: str) -> Path | None:
        """Local Parquet file of the measurements, None if there are none."""
        try:
            data = self._fs.cat_file(self._measurements(stage, key))
        except FileNotFoundError:
            return None
        path = self.layout.measurements(stage, key)
        write_atomic(path, data)
        return path

    def remove(self, stage: str, key: str) -> None:
        """Delete the artifact, manifest first, what is beside it, and the local copy. The caller holds its lock."""
        folder = self._artifact(stage, key)
        for path in (f"{folder}/{MANIFEST_NAME}", self._measurements(stage, key)):
            self._delete(path)
        for path in self._list(folder):
            self._delete(f"{folder}/{path}")
        self._cache.remove(stage, key)
        self.layout.suspect(stage, key).unlink(missing_ok=True)

    def size(self, stage: str, key: str) -> tuple[int, float | None]:
        """Bytes of the artifact as it is there, and when it was changed last (seconds since 1970)."""
        infos = list(self._list(self._artifact(stage, key)).values())
        return sum(int(info["size"]) for info in infos), _newest(infos)

    def stale_uploads(self) -> list[Upload]:
        """Sets of files under a digest that the artifact's manifest does not name."""
        groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
        for (stage, key, path), info in self._objects().items():
            digest, _, rest = path.partition("/")
            if rest:
                groups.setdefault((stage, key, digest), []).append(info)
        named = {(stage, key): self._named_digest(stage, key) for stage, key, _ in groups}
        return [
            Upload(stage, key, digest, sum(int(info["size"]) for info in infos), _newest(infos))
            for (stage, key, digest), infos in sorted(groups.items())
            if named[stage, key] != digest
        ]

    def _named_digest(self, stage: str, key: str) -> str | None:
        try:
            manifest = self.manifest(stage, key)
        except DamagedArtifact:
            return None
        return None if manifest is None else manifest.digest

    def remove_upload(self, upload: Upload) -> None:
        """Delete the files of `upload`."""
        folder = f"{self._artifact(upload.stage, upload.key)}/{check_name(upload.digest)}"
        for path in self._list(folder):
            self._delete(f"{folder}/{path}")

    def write_run(self, run_id: str, name: str, data: bytes) -> str:
        """Write a file of a run's record; returns where it is."""
        path = self._run(run_id, name)
        self._write(path, data)
        return path

    def read_run(self, run_id: str, name: str) -> bytes | None:
        """Content of a file of a run's record, None if it is not there."""
        try:
            return bytes(self._fs.cat_file(self._run(run_id, name)))
        except FileNotFoundError:
            return None

    def runs(self) -> list[str]:
        """Ids of the runs with a record, sorted."""
        return sorted({path.split("/")[0] for path in self._list(f"{self._base}/runs") if "/" in path})

    def _artifact(self, stage: str, key: str) -> str:
        return f"{self._base}/artifacts/{check_stage(stage)}/{check_key(key)[:2]}/{key}"

    def _files(self, manifest: Manifest) -> str:
        return f"{self._artifact(manifest.stage, manifest.key)}/{manifest.digest}"

    def _measurements(self, stage: str, key: str) -> str:
        return f"{self._base}/measurements/{check_stage(stage)}/{check_key(key)}.parquet"

    def _run(self, run_id: str, name: str) -> str:
        return f"{self._base}/runs/{check_name(run_id, 'run id')}/{check_name(name, 'file name')}"

    def _list(self, folder: str) -> dict[str, dict[str, Any]]:
        """Information on every file below `folder`, by path relative to it; empty where there is none."""
        self._fs.invalidate_cache()
        try:
            found = self._fs.find(folder, detail=True)
        except FileNotFoundError:
            return {}
        start = len(folder.strip("/")) + 1
        return {path.strip("/")[start:]: info for path, info in found.items() if len(path.strip("/")) >= start}

    def _upload(self, source: Path, path: str) -> None:
        self._in_folder(path, lambda: self._fs.put_file(str(source), path))

    def _write(self, path: str, data: bytes) -> None:
        self._in_folder(path, lambda: self._fs.pipe_file(path, data))

    def _in_folder(self, path: str, write: Callable[[], object]) -> None:
        """Write; where the file system has real folders and that of `path` is missing, make it and write again."""
        try:
            write()
        except FileNotFoundError:
            self._fs.makedirs(posixpath.dirname(path), exist_ok=True)
            write()

    def _delete(self, path: str) -> None:
        try:
            self._fs.rm_file(path)
        except FileNotFoundError:
            _log.debug("%s was gone already", path)


def default_cache(url: str) -> Path:
    """Folder for local copies of the store at `url`: langadapt/<sha256 of the URL> in XDG_CACHE_HOME or ~/.cache."""
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "langadapt" / text_digest(url)


def _newest(infos: list[dict[str, Any]]) -> float | None:
    """When the newest file was changed, in seconds since 1970; None where the storage does not say for one of them."""
    times = []
    for info in infos:
        values = (info.get(name) for name in ("mtime", "LastModified", "last_modified", "updated", "created"))
        value = next((value for value in values if value is not None), None)
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        if isinstance(value, datetime):
            value = value.timestamp()
        if not isinstance(value, (int, float)):
            return None
        times.append(float(value))
    return max(times, default=None)
