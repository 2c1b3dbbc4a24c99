"""Where things are in a store's local folder.

artifacts/<stage>/<key[:2]>/<key>/       the files and manifest.json; the folder is complete or not there
measurements/<stage>/<key>.parquet       times and speeds of its build
runs/<run id>/...                        records of runs
staging/<stage>/<key>.<kind>.<pid>.<random>/   being written, by a build or a fetch (download)
work/<stage>/<key>/                      what a build keeps over a crash (checkpoints)
locks/<stage>/<key>.lock                 held by whoever builds the key; .fetch.lock by whoever downloads it
stamps/<stage>/<key>.json                state of the files when they were hashed last
suspect/<stage>/<key>                    mark: the last download of the artifact was damaged
trash/                                   replaced folders on their way out

Only measurements, artifacts and runs matter; in the cache of a remote store artifacts are copies.
"""

import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from storage.artifact import checked_ref
from storage.names import check_key, check_name, check_stage

StagingKind = Literal["build", "fetch"]


@dataclass(frozen=True)
class Layout:
    """The paths below `root`; every name is checked before it becomes a path (ValueError)."""

    root: Path

    def artifact(self, stage: str, key: str) -> Path:
        """Folder of the artifact."""
        checked_ref(stage, key)
        return self.root / "artifacts" / stage / key[:2] / key

    def measurements(self, stage: str, key: str) -> Path:
        """Parquet file of the measurements of its build."""
        checked_ref(stage, key)
        return self.root / "measurements" / stage / f"{key}.parquet"

    def run(self, run_id: str, name: str) -> Path:
        """File `name` in the record of a run."""
        return self.root / "runs" / check_name(run_id, "run id") / check_name(name, "file name")

    def new_staging(self, stage: str, key: str, kind: StagingKind) -> Path:
        """A fresh name for a folder to write into (not made)."""
        checked_ref(stage, key)
        return self.root / "staging" / stage / f"{key}.{kind}.{os.getpid()}.{secrets.token_hex(4)}"

    def staging_of(self, stage: str, key: str, kind: StagingKind) -> list[Path]:
        """What is there of the key in staging, for that kind of writer."""
        checked_ref(stage, key)
        return sorted((self.root / "staging" / stage).glob(f"{key}.{kind}.*"))

    def work(self, stage: str, key: str) -> Path:
        """Folder that survives a crash of the build."""
        checked_ref(stage, key)
        return self.root / "work" / stage / key

    def lock(self, stage: str, key: str) -> Path:
        """Lock file of whoever builds the key."""
        checked_ref(stage, key)
        return self.root / "locks" / stage / f"{key}.lock"

    def fetch_lock(self, stage: str, key: str) -> Path:
        """Lock file of whoever downloads the key."""
        checked_ref(stage, key)
        return self.root / "locks" / stage / f"{key}.fetch.lock"

    def stamp(self, stage: str, key: str) -> Path:
        """File with the state of the artifact's files when they were hashed last."""
        checked_ref(stage, key)
        return self.root / "stamps" / stage / f"{key}.json"

    def suspect(self, stage: str, key: str) -> Path:
        """Mark on an artifact whose download was found damaged."""
        checked_ref(stage, key)
        return self.root / "suspect" / stage / key

    def new_trash(self) -> Path:
        """A fresh name for something on its way out (not made)."""
        return self.root / "trash" / f"{os.getpid()}.{secrets.token_hex(8)}"

    def artifact_keys(self, stage: str | None = None) -> Iterator[tuple[str, str]]:
        """(stage, key) of every artifact folder, intact or not, in order."""
        stages = self._names("artifacts") if stage is None else [check_stage(stage)]
        for name in stages:
            if not _is(check_stage, name):
                continue
            for prefix in self._names("artifacts", name):
                for key in self._names("artifacts", name, prefix):
                    if _is(check_key, key) and key[:2] == prefix:
                        yield name, key

    def keyed_entries(self, area: str) -> Iterator[tuple[str, str, Path]]:
        """(stage, key, path) of every entry of staging/, work/ or locks/ whose name begins with a key, in order."""
        for stage in self._names(area):
            for name in self._names(area, stage):
                if _is(check_stage, stage) and _is(check_key, name[:64]):
                    yield stage, name[:64], self.root / area / stage / name

    def _names(self, *parts: str) -> list[str]:
        try:
            return sorted(entry.name for entry in self.root.joinpath(*parts).iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []


def _is(check: Callable[[str], str], name: str) -> bool:
    try:
        check(name)
    except ValueError:
        return False
    return True
