"""Are the files of an artifact the ones in its manifest?"""

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from storage.files import list_tree, write_atomic
from storage.keys import file_digest
from storage.manifest import MANIFEST_NAME, DamagedArtifact, Manifest, parse_manifest

Verify = Literal["auto", "full", "size"]
Check = Literal["auto", "full", "size", "stamp"]

FULL_CHECK_BYTES = 64 << 20

_log = logging.getLogger(__name__)


def read_manifest(folder: Path, stage: str, key: str) -> Manifest | None:
    """The manifest in `folder`, checked against stage and key; None where there is no folder.

    Raises:
        DamagedArtifact: the manifest is missing, damaged or of another artifact.
        OSError: it cannot be read.
    """
    try:
        data = (folder / MANIFEST_NAME).read_bytes()
    except FileNotFoundError:
        if not folder.exists():
            return None
        raise DamagedArtifact(f"{MANIFEST_NAME} is missing") from None
    return belonging(parse_manifest(data), stage, key)


def belonging(manifest: Manifest, stage: str, key: str) -> Manifest:
    """`manifest`, which is that of the artifact `key` of `stage`.

    Raises:
        DamagedArtifact: it is another one's.
    """
    if (manifest.stage, manifest.key) != (stage, key):
        raise DamagedArtifact(f"{MANIFEST_NAME} belongs to another artifact ({manifest.stage} {manifest.key})")
    return manifest


def check_sizes(manifest: Manifest, sizes: Mapping[str, int]) -> None:
    """Compare the sizes in bytes of the files that are there, by relative path, with the manifest.

    Raises:
        DamagedArtifact: a file is missing, has another size or is not in the manifest.
    """
    for entry in manifest.files:
        size = sizes.get(entry.path)
        if size is None:
            raise DamagedArtifact(f"file {entry.path} is missing")
        if size != entry.size:
            raise DamagedArtifact(f"file {entry.path}: {size} bytes instead of {entry.size}")
    extra = sorted(set(sizes) - {entry.path for entry in manifest.files})
    if extra:
        raise DamagedArtifact(f"file {extra[0]} is not in the manifest")


def check_files(folder: Path, manifest: Manifest, stamp: Path, check: Check) -> None:
    """Compare the files in `folder` with `manifest`.

    Args:
        folder: the artifact's folder.
        manifest: its manifest.
        stamp: file that remembers size, times and inode of the files when they were hashed; written after hashing.
        check: 'size': existence and size only; 'full': sha256 of every file; 'stamp': sha256 of the files that do not
            look as in the stamp; 'auto': 'full' up to `FULL_CHECK_BYTES` in all, 'stamp' above.

    Raises:
        DamagedArtifact: says which file and what is wrong with it.
        OSError: a file cannot be read.
    """
    tree = list_tree(folder)
    if tree.odd:
        raise DamagedArtifact(f"{tree.odd[0]} is not a regular file")
    found = {path: status for path, status in tree.files if path != MANIFEST_NAME}
    check_sizes(manifest, {path: status.st_size for path, status in found.items()})
    if check == "size":
        return
    old = _read_stamp(stamp, manifest)
    hash_all = check == "full" or (check == "auto" and manifest.bytes <= FULL_CHECK_BYTES)
    for entry in manifest.files:
        if not hash_all and old.get(entry.path) == _state(found[entry.path]):
            continue
        if _digest(folder / entry.path) != entry.sha256:
            raise DamagedArtifact(f"file {entry.path}: sha256 differs")
    new = {path: _state(status) for path, status in found.items()}
    if new != old:
        _write_stamp(stamp, manifest, new)


def write_stamp(folder: Path, manifest: Manifest, stamp: Path) -> None:
    """Remember the state of the files in `folder`, whose sha256 the caller has just found to be right."""
    states = {path: _state(status) for path, status in list_tree(folder).files if path != MANIFEST_NAME}
    _write_stamp(stamp, manifest, states)


def _digest(path: Path) -> str:
    try:
        return file_digest(path)
    except FileNotFoundError:  # replaced or collected while we looked
        raise DamagedArtifact(f"file {path.name} is missing") from None


def _state(status: os.stat_result) -> list[int]:
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def _read_stamp(stamp: Path, manifest: Manifest) -> dict[str, list[int]]:
    try:
        values = json.loads(stamp.read_bytes())
        files = values["files"] if values["checksum"] == manifest.checksum else {}
    except (OSError, ValueError, TypeError, KeyError):
        return {}
    return files if isinstance(files, dict) else {}


def _write_stamp(stamp: Path, manifest: Manifest, states: Mapping[str, list[int]]) -> None:
    try:
        write_atomic(stamp, json.dumps({"checksum": manifest.checksum, "files": states}).encode(), durable=False)
    except OSError as error:  # a store that may only be read is fine: files are hashed again next time
        _log.debug("cannot remember that %s was checked: %s", manifest.key, error)
