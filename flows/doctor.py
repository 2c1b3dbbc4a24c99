"""What this machine has for a run: aligners, processors, memory, and the places that are written to."""

import os
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

from flows.settings import Settings
from tasks.alignment.backends import registry
from tasks.alignment.machine import GIB, cpu_count, memory_budget, memory_bytes

TOKENS = "every aligner can align by token (alignment.unit: tokens), for scripts without blanks between words"


def examine(where: Settings) -> dict[str, Any]:
    """Everything that `langadapt doctor` says, as JSON types; starts no program and writes nothing.

    Returns:
        aligners: a row for each (see `tasks.alignment.backends.registry.Availability`); units: a sentence; machine and
        places: rows of name, value, ok (None where it is neither good nor bad) and advice.
    """
    return {
        "aligners": [asdict(row) for row in registry.availability()],
        "units": TOKENS,
        "machine": _machine(),
        "places": [_store(where), _data_root(where), _kernels(), _prefect()],
    }


def _row(name: str, value: str, ok: bool | None = None, advice: str = "") -> dict[str, Any]:
    return {"name": name, "value": value, "ok": ok, "advice": advice}


def _machine() -> list[dict[str, Any]]:
    return [
        _row("Python", platform.python_version()),
        _row("processors", f"{cpu_count()} usable"),
        _row("memory", f"{memory_bytes() / GIB:.1f} GiB"),
        _row("memory of an aligner", f"{memory_budget(None) / GIB:.1f} GiB", None, "change it by alignment.memory_gib"),
        _gpu(),
    ]


def _gpu() -> dict[str, Any]:
    import torch

    if not torch.cuda.is_available():
        return _row("GPU", "none", None, "training runs on the processors, which is slow for models of real size")
    names = [torch.cuda.get_device_properties(number) for number in range(torch.cuda.device_count())]
    return _row("GPU", ", ".join(f"{item.name} ({item.total_memory / GIB:.0f} GiB)" for item in names), True)


def _store(where: Settings) -> dict[str, Any]:
    if "://" in where.store:
        return _row("store", where.store, None, "not on this machine: not looked at")
    path = Path(where.store)
    if _can_write(path):
        return _row("store", where.store, True)
    return _row("store", where.store, False, "it cannot be written: give another by --store or LANGADAPT_STORE")


def _data_root(where: Settings) -> dict[str, Any]:
    if where.data_root.is_dir():
        return _row("data root", str(where.data_root), True)
    advice = "there is no such folder; languages with local files need it: --data-root or LANGADAPT_DATA_ROOT"
    return _row("data root", str(where.data_root), None, advice)


def _kernels() -> dict[str, Any]:
    """Where compiled kernels are kept: the folder that numba itself chooses."""
    from tasks.alignment.compiled import cache_folder

    path = cache_folder()
    if path is not None and _can_write(path):
        return _row("compiled kernels", str(path), True)
    advice = "nowhere to keep them, so every run compiles for about a minute: set NUMBA_CACHE_DIR to a folder of yours"
    return _row("compiled kernels", str(path or "none"), False, advice)


def _prefect() -> dict[str, Any]:
    from prefect.settings import get_current_settings

    url = get_current_settings().api.url
    if url is None:
        return _row("Prefect API", "none", None, "runs happen in the command's own process, which needs no server")
    return _row("Prefect API", str(url), None, "runs go to this server")


def _can_write(path: Path) -> bool:
    """Whether the folder, or the nearest one above it that is there, can be written."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path.is_dir() and os.access(path, os.W_OK | os.X_OK)
