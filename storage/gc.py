"""Deletes what no recent run needs, and what killed processes left behind."""

import json
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Literal

from storage.files import remove_tree, tree_bytes
from storage.locks import try_hold
from storage.manifest import DamagedArtifact, Manifest
from storage.store import Store

Kind = Literal["artifact", "damaged", "work", "staging", "trash", "upload"]
Reference = tuple[str, str]

# Uploads of other machines cannot be told from left-overs; what changed within this time is left alone.
UPLOAD_REST = timedelta(days=1)


@dataclass(frozen=True)
class GcItem:
    """Something to delete.

    Attributes:
        kind: 'artifact': no kept run needs it; 'damaged': its manifest cannot be read; 'work', 'staging', 'trash':
            left by a process that is gone; 'upload': files without a manifest in remote storage.
        stage: its stage, "" for trash.
        key: its key, "" for trash.
        bytes: its size.
    """

    kind: Kind
    stage: str
    key: str
    bytes: int


@dataclass(frozen=True)
class GcReport:
    """What was deleted, or would be.

    Attributes:
        dry_run: nothing was deleted.
        removed: what was (or would be) deleted.
        kept: number of artifacts that stay.
        locked: (stage, key) of what was passed over because a process holds its lock.
        problems: what kept artifacts from being judged, in words.
    """

    dry_run: bool
    removed: tuple[GcItem, ...]
    kept: int
    locked: tuple[Reference, ...]
    problems: tuple[str, ...]

    @property
    def bytes(self) -> int:
        """Total size of what was (or would be) deleted."""
        return sum(item.bytes for item in self.removed)


@dataclass
class _Sweep:
    store: Store
    dry_run: bool
    oldest_kept: float | None
    removed: list[GcItem] = field(default_factory=list)
    locked: list[Reference] = field(default_factory=list)
    kept: int = 0

    def is_old(self, changed: float | None) -> bool:
        return self.oldest_kept is None or (changed is not None and changed < self.oldest_kept)

    def remove(self, item: GcItem, delete: Callable[[], None], lock_files: Iterable[Path]) -> None:
        """Delete `item` if all its locks are free."""
        with ExitStack() as stack:
            paths = [path for path in lock_files if path.exists() or not self.dry_run]
            free = [stack.enter_context(try_hold(path)) for path in paths]
            if not all(free):
                self.locked.append((item.stage, item.key))
                return
            if not self.dry_run:
                delete()
                for path in paths:
                    path.unlink(missing_ok=True)  # we hold it, and whoever waits for it looks whether it is there
            self.removed.append(item)


def collect(
    store: Store, *, keep_runs: int | None, older_than: timedelta | None, now: datetime, dry_run: bool = True
) -> GcReport:
    """Delete artifacts that no kept run needs, and left-overs of dead processes.

    An artifact stays if a kept run's run.json names it in `artifacts` (a list of objects with stage and key), if it
    is an input, of whatever depth, of one that stays, if it is younger than `older_than`, or if a process holds its
    lock. If a kept run's run.json cannot be read, no artifact is deleted. Records of runs are never deleted.

    Args:
        store: the store.
        keep_runs: how many of the latest runs count; None: all.
        older_than: what is younger stays, artifacts and work folders alike; None: age does not matter.
        now: the present, with time zone.
        dry_run: only say what would go.

    Raises:
        ValueError: `keep_runs` is negative or `now` has no time zone.
        OSError: something cannot be read or deleted; names it.
    """
    if keep_runs is not None and keep_runs < 0:
        raise ValueError(f"keep_runs is {keep_runs}: 0 or more, or None for all")
    if now.tzinfo is None:
        raise ValueError("now needs a time zone")
    sweep = _Sweep(store, dry_run, None if older_than is None else (now - older_than).timestamp())
    roots, problems = _roots(store, keep_runs)
    _artifacts(sweep, roots, judge=not problems)
    _left_overs(sweep, "staging")
    _left_overs(sweep, "work")
    _trash(sweep)
    _uploads(sweep, (now - UPLOAD_REST).timestamp())
    return GcReport(dry_run, tuple(sweep.removed), sweep.kept, tuple(sweep.locked), tuple(problems))


def _roots(store: Store, keep_runs: int | None) -> tuple[set[Reference], list[str]]:
    """(stage, key) named by the kept runs, and what is wrong with records."""
    runs: list[tuple[str, str, set[Reference]]] = []
    problems = []
    for run_id in store.runs():
        data = store.read_run(run_id)
        if data is None:
            continue
        try:
            record = json.loads(data)
            named = {(str(item["stage"]), str(item["key"])) for item in record["artifacts"]}
            runs.append((str(record.get("started_at", "")), run_id, named))
        except (ValueError, TypeError, KeyError) as error:
            problems.append(f"run {run_id}: run.json cannot be read ({error!r}); no artifact is deleted: "
                            "repair or delete the record of this run")  # fmt: skip
    runs.sort()
    kept = runs if keep_runs is None else runs[len(runs) - min(keep_runs, len(runs)) :]
    return set().union(*(named for _, _, named in kept)), problems


def _artifacts(sweep: _Sweep, roots: set[Reference], judge: bool) -> None:
    backend = sweep.store.backend
    manifests: dict[Reference, Manifest | None] = {}
    for stage, key in backend.references():
        try:
            manifests[stage, key] = backend.manifest(stage, key)
        except DamagedArtifact:
            manifests[stage, key] = None
    young = {name for name, manifest in manifests.items() if not sweep.is_old(_finished(sweep, name, manifest))}
    kept = _reachable(roots | young, manifests)
    for (stage, key), manifest in manifests.items():
        if not judge or (stage, key) in kept:
            sweep.kept += 1
            continue
        size = backend.size(stage, key)[0]
        item = GcItem("artifact" if manifest is not None else "damaged", stage, key, size)
        locks = (sweep.store.layout.lock(stage, key), sweep.store.layout.fetch_lock(stage, key))
        locked = len(sweep.locked)
        sweep.remove(item, partial(backend.remove, stage, key), locks)
        sweep.kept += len(sweep.locked) - locked


def _finished(sweep: _Sweep, reference: Reference, manifest: Manifest | None) -> float | None:
    if manifest is None:
        return sweep.store.backend.size(*reference)[1]
    try:
        return datetime.fromisoformat(manifest.started_at).timestamp() + manifest.seconds
    except ValueError:
        return None


def _reachable(roots: set[Reference], manifests: dict[Reference, Manifest | None]) -> set[Reference]:
    seen: set[Reference] = set()
    pending = [reference for reference in roots if reference in manifests]
    while pending:
        reference = pending.pop()
        if reference in seen:
            continue
        seen.add(reference)
        manifest = manifests[reference]
        inputs = () if manifest is None else manifest.inputs.values()
        pending += [(entry.stage, entry.key) for entry in inputs if (entry.stage, entry.key) in manifests]
    return seen


def _left_overs(sweep: _Sweep, area: Literal["staging", "work"]) -> None:
    layout = sweep.store.layout
    for stage, key, path in layout.keyed_entries(area):
        if area == "work" and not sweep.is_old(_newest_change(path)):
            continue
        lock = layout.fetch_lock(stage, key) if path.name[64:].startswith(".fetch.") else layout.lock(stage, key)
        item = GcItem(area, stage, key, tree_bytes(path))
        sweep.remove(item, partial(remove_tree, path), (lock,))


def _newest_change(path: Path) -> float | None:
    try:
        return max(entry.lstat().st_mtime for entry in (path, *path.rglob("*")))
    except FileNotFoundError:
        return None


def _trash(sweep: _Sweep) -> None:
    folder = sweep.store.layout.root / "trash"
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        sweep.remove(GcItem("trash", "", "", tree_bytes(path)), partial(remove_tree, path), ())


def _uploads(sweep: _Sweep, oldest: float) -> None:
    backend = sweep.store.backend
    for upload in backend.stale_uploads():
        if upload.changed is None or upload.changed >= oldest:
            continue
        item = GcItem("upload", upload.stage, upload.key, upload.bytes)
        lock = sweep.store.layout.lock(upload.stage, upload.key)
        sweep.remove(item, partial(backend.remove_upload, upload), (lock,))
