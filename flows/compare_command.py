"""The command `langadapt compare`: initialisers of one language beside each other, before any training."""

import os
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from flows import options
from flows.console_tables import cell, share, table
from flows.options import console, errors
from flows.settings import set_prefect_defaults, settings

EXIT_FAILED = 1


def compare(
    language: options.Language,
    initialisers: Annotated[
        str, typer.Option("--initialisers", "-i", help="Names with commas between them; without it, all there are.")
    ] = "",
    model: options.Model = "tiny-english",
    recipe: Annotated[
        str, typer.Option("--recipe", "-r", help="Recipe that says everything but the initialiser.")
    ] = "trans-tokenization",
    override: options.Override = [],  # noqa: B006  # typer copies it
    rerun: options.Rerun = [],  # noqa: B006
    plan: Annotated[bool, typer.Option("--plan", help="Only say what would run, and why.")] = False,
    store: options.StoreUrl = None,
    data_root: options.DataRoot = None,
    verify: options.Verify = None,
    prefect: options.Prefect = None,
    as_json: options.Json = False,
) -> None:
    """Compare initialisers: bits per byte of each one's model before any training. What they share is done once."""
    set_prefect_defaults()
    from flows.comparison import ComparisonRequest, left_out, prepare_comparison
    from flows.display import ConsoleDisplay, use_display
    from flows.runner import FAILED, run_in_process

    where = settings(store, data_root, verify)
    names = tuple(name.strip() for name in initialisers.split(",") if name.strip())
    request = ComparisonRequest(language, names, model, recipe, tuple(override), tuple(rerun))
    prepared = prepare_comparison(request, where)
    display = ConsoleDisplay(errors if as_json else console)
    if plan:
        ConsoleDisplay(console).plan(prepared.plan)
        _print_left_out({item.initialiser: item.reason for item in left_out(prepared)})
        return
    if prefect is None:
        prefect = options.server_configured()
    if prefect:
        options.use_settings(where)
        os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
        use_display(display)
        from flows.local_flow import run_comparison

        result = run_comparison(request)
    else:
        display.plan(prepared.plan)
        result = run_in_process(prepared, display).as_json()
    if as_json:
        options.print_json(result)
    else:
        _print_result(result)
    if any((row["skipped"] or "").startswith(FAILED) for row in result["results"]):
        raise typer.Exit(EXIT_FAILED)


def _print_result(result: dict[str, Any]) -> None:
    done = [row for row in result["results"] if not row["skipped"]]
    rows = [
        [
            cell(row["initialiser"]),
            _number(row["bits_per_byte"]),
            _number(row["perplexity_per_native_token"]),
            share(row["coverage"]),
        ]
        for row in done
    ]
    header = ["initialiser", "bits per byte", "perplexity per native token", "coverage"]
    console.print(table("Before any training", header, rows))
    _print_left_out({row["initialiser"]: row["skipped"] for row in result["results"] if row["skipped"]})
    cached = sum(stage["status"] == "Cached" for stage in result["stages"])
    console.print(f"{len(result['stages'])} stages, {cached} cached, {result['seconds']:.1f} s. Run {result['run_id']}")
    console.print(f"Report: {result['report']}", soft_wrap=True)


def _print_left_out(reasons: Mapping[str, str]) -> None:
    for name, reason in reasons.items():
        console.print(f"left out: {name}: {reason}", soft_wrap=True, markup=False)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.3f}"
