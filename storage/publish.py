"""From the files a build left to a finished artifact: checked, synced, hashed, described."""

import json
import platform
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from storage.artifact import BuildRequest
from storage.files import fsync_path, list_tree, naming, write_atomic
from storage.keys import canonical_json, content_digest, file_digest
from storage.manifest import MANIFEST_FORMAT, MANIFEST_NAME, FileEntry, Manifest, manifest_json
from storage.names import check_relative_path

READ_ONLY = 0o444
LIBRARIES = (
    "accelerate", "datasets", "duckdb", "langadapt", "numba", "numpy", "pyarrow", "regex", "safetensors",
    "sentencepiece", "tokenizers", "torch", "transformers",
)  # fmt: skip


def seal_files(folder: Path) -> tuple[FileEntry, ...]:
    """Make the files in `folder` durable and read-only, and list them, sorted by path.

    Empty sub-folders are removed: an artifact is its files.

    Raises:
        ValueError: there is no file, or something that is no regular file, or a name that cannot be kept.
        OSError: a file cannot be read or synced; names it.
    """
    tree = list_tree(folder)
    if tree.odd:
        raise ValueError(f"{folder / tree.odd[0]} is not a regular file: an artifact holds regular files only")
    if not tree.files:
        raise ValueError(f"the build left no file in {folder}")
    entries = []
    for path, status in tree.files:
        if path == MANIFEST_NAME:
            raise ValueError(f"the build wrote {MANIFEST_NAME}, a name that the store keeps for itself")
        file = folder / check_relative_path(path)
        file.chmod(READ_ONLY)
        fsync_path(file)
        entries.append(FileEntry(path, status.st_size, file_digest(file)))
    kept = {str(parent) for path, _ in tree.files for parent in Path(path).parents}
    for name in reversed(tree.folders):
        if name in kept:
            fsync_path(folder / name)
        else:
            (folder / name).rmdir()
    return tuple(entries)


def describe(
    request: BuildRequest, files: tuple[FileEntry, ...], summary: Mapping[str, Any], started: datetime, seconds: float
) -> Manifest:
    """The sealed manifest of an artifact built for `request`.

    Args:
        request: what was asked for.
        files: from `seal_files`.
        summary: JSON values.
        started: when the build began, with time zone.
        seconds: how long it took.
    """
    return Manifest(
        format=MANIFEST_FORMAT,
        stage=request.stage,
        version=request.version,
        key=request.key,
        config=json.loads(canonical_json(request.config)),
        inputs=dict(request.inputs),
        files=files,
        digest=content_digest((file.path, file.sha256) for file in files),
        bytes=sum(file.size for file in files),
        summary=summary,
        started_at=started.isoformat(timespec="milliseconds"),
        seconds=round(seconds, 3),
        host=platform.node(),
        python=platform.python_version(),
        libraries=library_versions(),
    ).sealed()


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write manifest.json into `folder`, durably.

    Raises:
        OSError: with the path, when it cannot be written.
    """
    path = folder / MANIFEST_NAME
    write_atomic(path, manifest_json(manifest))
    path.chmod(READ_ONLY)


def write_measurements(rows: list[dict[str, Any]], path: Path) -> None:
    """Write `rows` (flat; a key that a row lacks is null there) as a Parquet file, durably and at once.

    Raises:
        TypeError: a column mixes types that have no common one.
        OSError: with the path, when it cannot be written.
    """
    import pyarrow as pa

    from storage.tables import write_table

    names = list(dict.fromkeys(name for row in rows for name in row))
    try:
        table = pa.table({name: [row.get(name) for row in rows] for name in names})
    except pa.ArrowException as error:
        raise TypeError(f"measurements cannot be one table with the columns {names}: {error}") from error
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    with naming(path):
        write_table(table, temporary)
    fsync_path(temporary)
    temporary.replace(path)


@lru_cache(maxsize=1)
def library_versions() -> Mapping[str, str]:
    """Versions of those of `LIBRARIES` that are installed."""
    versions = {}
    for name in LIBRARIES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions
