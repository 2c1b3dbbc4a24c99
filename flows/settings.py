"""Where things are: store, data root, and Prefect's settings for a machine without a server of its own."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from configs.faults import ConfigError
from storage.store import Store

DEFAULT_STORE = ".langadapt"
DEFAULT_DATA_ROOT = "../shared/data"

# Nothing is sent anywhere; a first start on a busy machine takes longer than Prefect's 20 s.
PREFECT_DEFAULTS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "PREFECT_CLOUD_ENABLE_ORCHESTRATION_TELEMETRY": "false",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
    "PREFECT_LOGGING_EXTRA_LOGGERS": "flows,tasks,storage",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",  # before and after a flow, there is none to log to
}


Verify = Literal["auto", "full", "size"]
VERIFY_MODES: tuple[Verify, ...] = get_args(Verify)


@dataclass(frozen=True)
class Settings:
    """The places a run uses.

    Attributes:
        store: local folder or fsspec URL of the artifact store.
        data_root: folder that relative paths of sources and models start from.
        verify: how much of an artifact is read before it is believed ('auto', 'full', 'size').
    """

    store: str
    data_root: Path
    verify: Verify = "auto"


def settings(store: str | None = None, data_root: str | None = None, verify: str | None = None) -> Settings:
    """Settings from the arguments, else from LANGADAPT_STORE, LANGADAPT_DATA_ROOT, LANGADAPT_VERIFY, else defaults.

    Raises:
        ConfigError: the verification mode is none of the known ones.
    """
    wanted = verify or os.environ.get("LANGADAPT_VERIFY") or "auto"
    modes = [mode for mode in VERIFY_MODES if mode == wanted]
    if not modes:
        raise ConfigError(f"verify (LANGADAPT_VERIFY) must be one of {', '.join(VERIFY_MODES)}, not {wanted!r}")
    url = store or os.environ.get("LANGADAPT_STORE") or DEFAULT_STORE
    root = data_root or os.environ.get("LANGADAPT_DATA_ROOT") or DEFAULT_DATA_ROOT
    return Settings(
        store=url if "://" in url else str(Path(url).absolute()), data_root=Path(root).absolute(), verify=modes[0]
    )


def open_store(where: Settings) -> Store:
    """The artifact store of these settings.

    Raises:
        ConfigError: the URL's protocol is not known, or needs a package that is not installed.
    """
    if where.store.startswith("memory:"):
        raise ConfigError(f"store {where.store!r} would be gone with this process; take a folder or another URL")
    try:
        return Store(where.store, verify=where.verify)
    except (ValueError, ImportError) as error:
        raise ConfigError(f"store {where.store!r}: {error}") from error


def set_prefect_defaults() -> None:
    """Set `PREFECT_DEFAULTS` where the environment says nothing; before Prefect is imported."""
    for name, value in PREFECT_DEFAULTS.items():
        os.environ.setdefault(name, value)
