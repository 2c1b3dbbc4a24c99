"""The command `langadapt`."""

import json
import os
import signal
import sys
from datetime import timedelta
from typing import Annotated, Any

import typer

from configs.faults import ConfigError
from flows.align_command import align
from flows.compare_command import compare
from flows.console_tables import cell, table
from flows.export_command import export, push
from flows.interrupt import leave_when_interrupted
from flows.options import (
    DataRoot,
    Json,
    Language,
    Model,
    Override,
    Prefect,
    RecipeName,
    Rerun,
    StoreUrl,
    Until,
    Verify,
    console,
    errors,
    print_json,
    server_configured,
    use_settings,
)
from flows.settings import Settings, set_prefect_defaults, settings

app = typer.Typer(
    name="langadapt",
    help="Adapt a pretrained language model to a new language, as cached, resumable stages.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(align)

EXIT_INPUT = 2
EXIT_FAILED = 1
EXIT_INTERRUPTED = 130


def _request(language: str, model: str, recipe: str, overrides: list[str], rerun: list[str], until: str | None) -> Any:
    from flows.runs import RunRequest

    return RunRequest(language, model, recipe, tuple(overrides), tuple(rerun), until)


@app.command()
def run(
    language: Language,
    model: Model = "tiny-english",
    recipe: RecipeName = "trans-tokenization",
    override: Override = [],  # noqa: B006  # typer copies it
    rerun: Rerun = [],  # noqa: B006
    until: Until = None,
    store: StoreUrl = None,
    data_root: DataRoot = None,
    verify: Verify = None,
    prefect: Prefect = None,
    as_json: Json = False,
) -> None:
    """Adapt a model to a language; stages already in the store are taken from there."""
    set_prefect_defaults()
    from flows.display import ConsoleDisplay, use_display
    from flows.runner import prepare, run_in_process

    where = settings(store, data_root, verify)
    request = _request(language, model, recipe, override, rerun, until)
    prepared = prepare(request, where)
    display = ConsoleDisplay(errors if as_json else console)
    if prefect is None:
        prefect = server_configured()
    if not prefect:
        display.plan(prepared.plan)
        result = run_in_process(prepared, display).as_json()
    else:
        use_settings(where)
        # The display says what happens, errors included; a server's log gets everything all the same.
        os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
        use_display(display)
        from flows.local_flow import run_flow

        result = run_flow(request)
    if as_json:
        print_json(result)
    else:
        _print_result(result)


def _print_result(result: dict[str, Any]) -> None:
    from flows.runner import summary_rows

    if result["results"]:
        header, rows = summary_rows(result["results"])
        console.print(table("Results", header, rows))
    cached = sum(stage["status"] == "Cached" for stage in result["stages"])
    console.print(f"{len(result['stages'])} stages, {cached} cached, {result['seconds']:.1f} s. Run {result['run_id']}")
    if result["report"]:
        console.print(f"Report: {result['report']}", soft_wrap=True)
    pushed = result["pushed"]
    if pushed is not None and pushed["error"] is None:
        console.print(f"Pushed: {pushed['url']}", soft_wrap=True, markup=False)
    elif pushed is not None:
        errors.print(f"not pushed: {pushed['error']}", soft_wrap=True, markup=False)


@app.command()
def plan(
    language: Language,
    model: Model = "tiny-english",
    recipe: RecipeName = "trans-tokenization",
    override: Override = [],  # noqa: B006
    rerun: Rerun = [],  # noqa: B006
    until: Until = None,
    store: StoreUrl = None,
    data_root: DataRoot = None,
    as_json: Json = False,
) -> None:
    """Say what a run would do, and why, without doing it."""
    from flows.display import ConsoleDisplay
    from flows.runner import prepare

    prepared = prepare(_request(language, model, recipe, override, rerun, until), settings(store, data_root))
    if not as_json:
        ConsoleDisplay(console).plan(prepared.plan)
        return
    rows = [
        {
            "node": item.node.id,
            "stage": item.node.stage,
            "label": item.node.label,
            "status": item.status,
            "reasons": list(item.reasons),
            "seconds": item.seconds,
            "work": item.cost,
            "key": None if item.artifact is None else item.artifact.key,
        }
        for item in prepared.plan
    ]
    print_json(rows)


app.command()(compare)
app.command()(export)
app.command()(push)


@app.command()
def status(
    store: StoreUrl = None,
    limit: Annotated[int, typer.Option(help="Newest runs shown.")] = 10,
    as_json: Json = False,
) -> None:
    """List the newest runs and what became of their stages."""
    from flows.inspection import newest_runs

    runs = list(newest_runs(settings(store), limit))
    if as_json:
        print_json([{name: value for name, value in run.items() if name != "config"} for run in runs])
        return
    rows = []
    for item in runs:
        states = [stage["status"] for stage in item["stages"]]
        counts = ", ".join(f"{states.count(name)} {name}" for name in dict.fromkeys(states))
        rows.append([item["run_id"], item["status"], counts, (item.get("error") or "").partition("\n")[0]])
    console.print(table("Runs", ["run", "status", "stages", "error"], rows))


@app.command()
def show(
    what: Annotated[str, typer.Argument(help="A run id, the first letters of an artifact's key, or 'mapping'.")],
    which: Annotated[
        str | None,
        typer.Argument(
            help="'mapping': a language (its newest run), a run id, or the first letters of a mapping's key."
        ),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option("--token", help="'mapping': the token whose sources are shown, for instance ▁vijftien."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="'mapping': strongest sources shown of a token.")] = 20,
    store: StoreUrl = None,
    as_json: Json = False,
) -> None:
    """Show a run's record, an artifact's manifest and files, or a token mapping: its coverage, or a token's sources."""
    if what == "mapping":
        _show_mapping(settings(store), which, token, limit, as_json)
        return
    if which is not None or token is not None:
        raise ConfigError(f"'show {what}' takes no second argument and no --token; 'show mapping' does")
    from flows.inspection import find

    found = find(settings(store), what)
    if as_json:
        print_json(found)
    else:
        console.print_json(json.dumps(found, ensure_ascii=False))


def _show_mapping(where: Settings, which: str | None, token: str | None, limit: int, as_json: bool) -> None:
    from flows.mapping_display import print_overview, print_tokens
    from flows.mapping_view import find_mapping, overview, show_token

    if which is None:
        raise ConfigError("show mapping: which? Give a language that was run, a run id, or the first letters of a key")
    mapping = find_mapping(where, which)
    if token is None:
        found = overview(mapping)
        print_json(found) if as_json else print_overview(console, found)
    else:
        rows = show_token(mapping, token, limit)
        print_json(rows) if as_json else print_tokens(console, rows)


@app.command()
def query(
    sql: Annotated[str | None, typer.Argument(help="SQL over the views; without it, the views are listed.")] = None,
    store: StoreUrl = None,
    limit: Annotated[int, typer.Option(help="Rows printed.")] = 50,
    as_json: Json = False,
) -> None:
    """Query the store's tables with SQL (DuckDB views over its Parquet files)."""
    from flows.inspection import run_query

    header, rows, total = run_query(settings(store), sql, limit)
    if as_json:
        print_json([dict(zip(header, row, strict=True)) for row in rows])
        return
    console.print(table("", header, [[cell(value) for value in row] for row in rows]))
    if total > len(rows):
        console.print(f"{len(rows)} of {total} rows; --limit shows more")


@app.command()
def validate(
    data_root: DataRoot = None,
    as_json: Json = False,
) -> None:
    """Check every configuration file and every combination of them, without loading data or models."""
    from flows.validation import validate_all

    report = validate_all(settings(None, data_root).data_root)
    if as_json:
        print_json(report)
    else:
        for fault in report["faults"]:
            errors.print("error:", fault, soft_wrap=True, markup=False)
        for note in report["notes"]:
            console.print(f"note: {note}", soft_wrap=True, markup=False)
        console.print(
            f"{report['files']} files, {report['combinations']} combinations of language, model and recipe, "
            f"{len(report['faults'])} faults"
        )
    if report["faults"]:
        raise typer.Exit(EXIT_INPUT)


@app.command()
def doctor(store: StoreUrl = None, data_root: DataRoot = None, as_json: Json = False) -> None:
    """Say what this machine has for a run: aligners, processors, memory, places; and how to get what is missing."""
    set_prefect_defaults()
    from flows.doctor import examine

    found = examine(settings(store, data_root))
    if as_json:
        print_json(found)
        return
    rows = [
        [
            row["name"],
            "yes" if row["available"] else "no",
            cell(" ".join(part for part in (row["version"], row["path"]) if part) or row["missing"], 400),
            "yes" if row["expected_counts"] else "no",
            "yes" if row["deterministic"] else "no",
        ]
        for row in found["aligners"]
    ]
    console.print(
        table("Aligners", ["aligner", "there", "what, or how to get it", "expected counts", "same each run"], rows)
    )
    console.print(found["units"] + "\n")
    signs = {True: "yes", False: "NO", None: ""}
    rows = [
        [row["name"], cell(row["value"], 400), signs[row["ok"]], row["advice"]]
        for row in found["machine"] + found["places"]
    ]
    console.print(table("Machine and places", ["what", "value", "good", "note"], rows))


@app.command()
def gc(
    store: StoreUrl = None,
    keep_runs: Annotated[int, typer.Option(min=0, help="Keep what the newest runs use.")] = 20,
    older_than_days: Annotated[float, typer.Option(min=0, help="Remove only what is older than this.")] = 7.0,
    delete: Annotated[bool, typer.Option("--delete", help="Remove; without it, only say what would go.")] = False,
    as_json: Json = False,
) -> None:
    """Remove artifacts that no recent run uses, and what killed runs left over. A dry run unless --delete."""
    from flows.inspection import collect_garbage

    report = collect_garbage(settings(store), keep_runs, timedelta(days=older_than_days), not delete)
    if as_json:
        print_json(report)
        return
    rows = [[row["kind"], row["stage"], row["key"][:16], f"{row['bytes']:,}"] for row in report["removed"]]
    title = "Removed" if delete else "Would be removed (dry run; --delete removes)"
    console.print(table(title, ["what", "stage", "key", "bytes"], rows))
    for problem in report["problems"]:
        console.print(f"note: {problem}", soft_wrap=True, markup=False)
    console.print(f"{len(rows)} items, {report['bytes']:,} bytes")


def _terminated(signum: int, frame: object) -> None:
    """End by an exception, so that a training child gets the time to save its state."""
    raise SystemExit(128 + signum)


def main() -> None:
    """Run the command; errors of the person's input are one message, not a traceback."""
    from storage.manifest import DamagedArtifact
    from tasks.contract import InputError
    from tasks.isolation import StageFailed

    signal.signal(signal.SIGTERM, _terminated)
    leave_when_interrupted()
    try:
        app()
    except (ConfigError, InputError) as error:
        errors.print("[red]error:[/]", end=" ")
        errors.print(str(error), markup=False, soft_wrap=True)
        sys.exit(EXIT_INPUT)
    except (StageFailed, DamagedArtifact, OSError) as error:
        errors.print("[red]failed:[/]", end=" ")
        errors.print(str(error), markup=False, soft_wrap=True)
        sys.exit(EXIT_FAILED)
    except KeyboardInterrupt:
        errors.print("interrupted; what is done is kept, the same command goes on from there")
        sys.exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
