"""Options, output and settings that the commands share."""

import json
import os
import sys
from typing import Annotated, Any

import typer
from rich.console import Console

from flows.settings import Settings

PIPE_WIDTH = 140  # columns where the output is no terminal


def made_console(stderr: bool) -> Console:
    """A console on standard output or standard error."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, highlight=False, width=None if stream is not None and stream.isatty() else PIPE_WIDTH)


console = made_console(stderr=False)
errors = made_console(stderr=True)

Language = Annotated[str, typer.Argument(help="Target language: a name in configs/languages, or a .yaml file.")]
Model = Annotated[
    str, typer.Option("--model", "-m", help="Source model: a name in configs/models, a .yaml or a folder.")
]
RecipeName = Annotated[str, typer.Option("--recipe", "-r", help="Recipe: a name in configs/recipes, or a .yaml file.")]
Override = Annotated[
    list[str], typer.Option("--override", "-o", help="Changed value, as key.subkey=value. Repeatable.")
]
Rerun = Annotated[list[str], typer.Option("--rerun", help="Stage to run again although it is cached. Repeatable.")]
Until = Annotated[str | None, typer.Option("--until", help="Last stage to run.")]
StoreUrl = Annotated[
    str | None, typer.Option("--store", help="Artifact store: folder or fsspec URL [LANGADAPT_STORE].")
]
DataRoot = Annotated[str | None, typer.Option("--data-root", help="Folder of local data [LANGADAPT_DATA_ROOT].")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
"""Options that several commands share."""


def print_json(value: Any) -> None:
    """`value` as JSON on standard output."""
    sys.stdout.write(json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def use_settings(where: Settings) -> None:
    """Hand the chosen places to the flow, which reads them from the environment as in a worker."""
    os.environ["LANGADAPT_STORE"] = where.store
    os.environ["LANGADAPT_DATA_ROOT"] = str(where.data_root)
    os.environ["LANGADAPT_VERIFY"] = where.verify


def server_configured() -> bool:
    """Whether the environment or the profile names a Prefect server."""
    from prefect.settings import get_current_settings

    return get_current_settings().api.url is not None


Prefect = Annotated[
    bool | None,
    typer.Option(
        "--prefect/--no-prefect",
        help="Run as a Prefect flow, or in this process alone. Default: as a flow where a Prefect server is "
        "configured (PREFECT_API_URL); with --prefect and no server, on a temporary one.",
    ),
]
Verify = Annotated[str | None, typer.Option(help="How artifacts are checked: auto, full or size.")]
