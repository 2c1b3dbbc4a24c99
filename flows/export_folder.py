"""A model's files copied into a folder of the person's: checked, and all of them or none."""

import json
import os
import secrets
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from configs.faults import ConfigError
from flows.exported_model import CARD, ExportedModel
from storage.files import fsync_path, list_tree, make_folders, naming, remove_tree, write_atomic
from storage.keys import file_digest, text_digest

MARK = ".langadapt.json"


def export_model(model: ExportedModel, folder: Path) -> Path:
    """Write `model` as the folder `folder`, whose absolute path is returned.

    The files are copied beside it, compared with the digests that the store keeps, and moved into place at once. A
    folder that is there is replaced if it is an earlier export that nobody has changed, or empty.

    Raises:
        ConfigError: `folder` holds something else.
        OSError: a file cannot be written or its copy is not the same (with the path).
    """
    target = folder.absolute()
    refuse_foreign(target)
    make_folders(target.parent)
    staging = target.with_name(f".{target.name[:100]}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        _write(model, staging)
        _move_into_place(staging, target)
    finally:
        remove_tree(staging)
    return target


def refuse_foreign(folder: Path) -> None:
    """Nothing, if `folder` is not there, is empty, or is an export as it was written.

    Raises:
        ConfigError: it holds what no export wrote, or what was changed since.
    """
    if not folder.exists() and not folder.is_symlink():
        return
    if not folder.is_dir() or folder.is_symlink():
        raise ConfigError(f"{folder} is not a folder; choose another name")
    tree = list_tree(folder)
    if not (tree.files or tree.odd):
        return
    written = _written(folder / MARK)
    foreign = [*tree.odd, *(name for name, _ in tree.files if name != MARK and name not in written)]
    foreign += [name for name, _ in tree.files if name in written and file_digest(folder / name) != written[name]]
    if foreign or not written:
        names = ", ".join(foreign[:3]) or "its files"
        raise ConfigError(
            f"{folder} is not an unchanged export ({names}): choose another folder, or remove it yourself"
        )


def _written(mark: Path) -> dict[str, str]:
    """Digest of each file that an export wrote; empty where there is no mark that can be read."""
    try:
        files = json.loads(mark.read_text(encoding="utf-8"))["files"]
        return {str(name): str(digest) for name, digest in files.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _write(model: ExportedModel, staging: Path) -> None:
    staging.mkdir()
    digests: dict[str, str] = {CARD: text_digest(model.card)}
    write_atomic(staging / CARD, model.card.encode())
    for name, file in model.files.items():
        copy = staging / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        with naming(copy):
            shutil.copyfile(file.path, copy)
        fsync_path(copy)
        if file_digest(copy) != file.sha256:
            raise OSError(f"{file.path}: its copy {copy} is not what the store has a record of; export again")
        digests[name] = file.sha256
    write_atomic(staging / MARK, _mark(model, digests))


def _mark(model: ExportedModel, digests: Mapping[str, str]) -> bytes:
    facts = {"run": model.run_id, "node": model.node, "key": model.key, "files": dict(sorted(digests.items()))}
    return (json.dumps(facts, indent=1) + "\n").encode()


def _move_into_place(staging: Path, target: Path) -> None:
    """Rename `staging` to `target`; what was there goes only after the new folder is in its place."""
    old = staging.with_suffix(".old")
    there = target.exists()
    if there:
        target.rename(old)
    try:
        staging.rename(target)
    except OSError:
        if there:
            old.rename(target)
        raise
    fsync_path(target.parent)
    with suppress(OSError):
        remove_tree(old)
