"""What the store asks of the place where artifacts are kept."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from storage.layout import Layout
from storage.manifest import Manifest
from storage.verify import Check


@dataclass(frozen=True)
class Upload:
    """Files that no manifest names, left by an upload that did not end or lost against another.

    Attributes:
        stage: stage of the artifact.
        key: its key.
        digest: content digest of what was uploaded.
        bytes: total size.
        changed: when the newest file was written, seconds since 1970; None where the storage does not say.
    """

    stage: str
    key: str
    digest: str
    bytes: int
    changed: float | None


class Backend(Protocol):
    """Artifacts, measurements and run records; `layout` is the local folder for locks, staging and work."""

    layout: Layout

    def find(self, stage: str, key: str, check: Check) -> Manifest | None:
        """The manifest of the checked artifact; None if nothing is there. Raises DamagedArtifact."""

    def fetch(self, stage: str, key: str, digest: str, check: Check) -> Path:
        """Local folder of the checked artifact with that content. Raises DamagedArtifact."""

    def local_folder(self, manifest: Manifest) -> Path | None:
        """Its folder if it is on this machine and looks intact; downloads nothing."""

    def manifest(self, stage: str, key: str) -> Manifest | None:
        """The manifest alone; None if nothing is there. Raises DamagedArtifact."""

    def references(self, stage: str | None = None) -> Iterator[tuple[str, str]]:
        """(stage, key) of everything that is there, intact or not."""

    def publish(self, staged: Path, manifest: Manifest, measurements: Path | None) -> None:
        """Make the sealed files in `staged` the artifact; it is visible at the end or not at all."""

    def measurements(self, stage: str, key: str) -> Path | None:
        """Local Parquet file of the measurements."""

    def remove(self, stage: str, key: str) -> None:
        """Delete the artifact and what is beside it. The caller holds its lock."""

    def size(self, stage: str, key: str) -> tuple[int, float | None]:
        """Bytes that are there, and when they were changed last (seconds since 1970)."""

    def stale_uploads(self) -> list[Upload]:
        """Files that no manifest names."""

    def remove_upload(self, upload: Upload) -> None:
        """Delete such files."""

    def write_run(self, run_id: str, name: str, data: bytes) -> str:
        """Write a file of a run's record, at once; returns where it is."""

    def read_run(self, run_id: str, name: str) -> bytes | None:
        """Content of a file of a run's record."""

    def runs(self) -> list[str]:
        """Ids of the runs with a record, sorted."""
