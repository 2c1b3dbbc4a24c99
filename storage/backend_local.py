"""Artifacts in a local folder."""

import logging
from collections.abc import Iterator
from pathlib import Path

from storage.backend import Upload
from storage.files import fsync_path, make_folders, remove_tree, tree_bytes, write_atomic
from storage.layout import Layout
from storage.manifest import DamagedArtifact, Manifest
from storage.publish import write_manifest
from storage.verify import Check, check_files, read_manifest, write_stamp

_log = logging.getLogger(__name__)


class LocalBackend:
    """Artifacts, measurements and runs below `layout.root`."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def find(self, stage: str, key: str, check: Check) -> Manifest | None:
        """The manifest of the artifact, whose files were checked; None if nothing is there.

        Raises:
            DamagedArtifact: something is there and is not intact.
            OSError: it cannot be read.
        """
        folder = self.layout.artifact(stage, key)
        manifest = read_manifest(folder, stage, key)
        if manifest is None:
            return None
        try:
            check_files(folder, manifest, self.layout.stamp(stage, key), check)
        except FileNotFoundError as error:  # replaced or collected while we looked
            raise DamagedArtifact(f"{error.filename} is missing") from error
        return manifest

    def fetch(self, stage: str, key: str, digest: str, check: Check) -> Path:
        """Local folder of the checked artifact with the content `digest`.

        Raises:
            DamagedArtifact: it is gone, damaged or has another content.
        """
        manifest = self.find(stage, key, check)
        if manifest is None:
            raise DamagedArtifact("it is not in the store")
        if manifest.digest != digest:
            raise DamagedArtifact(f"its content is {manifest.digest} now instead of {digest}")
        return self.layout.artifact(stage, key)

    def local_folder(self, manifest: Manifest) -> Path | None:
        """Folder of the artifact if it is on this machine and looks intact (hashes only what changed)."""
        try:
            return self.fetch(manifest.stage, manifest.key, manifest.digest, "stamp")
        except DamagedArtifact as error:
            _log.warning("artifact %s %s is left out: %s", manifest.stage, manifest.key, error.reason)
            return None

    def manifest(self, stage: str, key: str) -> Manifest | None:
        """The manifest alone, without a look at the files; None if nothing is there.

        Raises:
            DamagedArtifact: it is damaged.
        """
        return read_manifest(self.layout.artifact(stage, key), stage, key)

    def references(self, stage: str | None = None) -> Iterator[tuple[str, str]]:
        """(stage, key) of everything under artifacts, intact or not."""
        return self.layout.artifact_keys(stage)

    def publish(self, staged: Path, manifest: Manifest, measurements: Path | None) -> None:
        """Make the sealed files in `staged` the artifact, in one rename; what was there before is thrown away.

        Raises:
            OSError: with the path.
        """
        write_manifest(staged, manifest)  # syncs the folder, too
        stage, key = manifest.stage, manifest.key
        self._put_measurements(stage, key, measurements)
        folder = self.layout.artifact(stage, key)
        make_folders(folder.parent)
        old = self._to_trash(folder)
        staged.rename(folder)
        fsync_path(folder.parent)
        write_stamp(folder, manifest, self.layout.stamp(stage, key))
        if old is not None:
            remove_tree(old)

    def _put_measurements(self, stage: str, key: str, measurements: Path | None) -> None:
        target = self.layout.measurements(stage, key)
        if measurements is None:
            target.unlink(missing_ok=True)
            return
        make_folders(target.parent)
        measurements.replace(target)
        fsync_path(target.parent)

    def measurements(self, stage: str, key: str) -> Path | None:
        """Parquet file of the measurements, None if there are none."""
        path = self.layout.measurements(stage, key)
        return path if path.is_file() else None

    def remove(self, stage: str, key: str) -> None:
        """Delete the artifact and what is beside it. The caller holds its lock."""
        old = self._to_trash(self.layout.artifact(stage, key))
        self.layout.measurements(stage, key).unlink(missing_ok=True)
        self.layout.stamp(stage, key).unlink(missing_ok=True)
        if old is not None:
            remove_tree(old)

    def size(self, stage: str, key: str) -> tuple[int, float | None]:
        """Bytes of the artifact's folder as it is, and when it was changed last (seconds since 1970)."""
        folder = self.layout.artifact(stage, key)
        return tree_bytes(folder), folder.stat().st_mtime

    def stale_uploads(self) -> list[Upload]:
        """Nothing: a local artifact is there at once or not at all."""
        return []

    def remove_upload(self, upload: Upload) -> None:
        """Nothing to do (see `stale_uploads`)."""

    def _to_trash(self, folder: Path) -> Path | None:
        trash = self.layout.new_trash()
        trash.parent.mkdir(parents=True, exist_ok=True)
        try:
            return folder.rename(trash)
        except FileNotFoundError:
            return None

    def write_run(self, run_id: str, name: str, data: bytes) -> str:
        """Write a file of a run's record, at once; returns where it is."""
        path = self.layout.run(run_id, name)
        write_atomic(path, data)
        return str(path)

    def read_run(self, run_id: str, name: str) -> bytes | None:
        """Content of a file of a run's record, None if it is not there."""
        try:
            return self.layout.run(run_id, name).read_bytes()
        except FileNotFoundError:
            return None

    def runs(self) -> list[str]:
        """Ids of the runs with a record, sorted."""
        folder = self.layout.root / "runs"
        return sorted(entry.name for entry in folder.iterdir() if entry.is_dir()) if folder.is_dir() else []
