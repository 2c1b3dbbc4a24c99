"""The commands `langadapt export` and `langadapt push`: a run's model for others."""

import re
from pathlib import Path
from typing import Annotated

import typer

from configs.faults import ConfigError
from configs.schema import REPOSITORY_PATTERN
from flows import options
from flows.options import console
from flows.settings import open_store, settings

Run = Annotated[str, typer.Argument(help="First letters of a run's id, or a language: its newest complete run.")]
Phase = Annotated[
    int | None, typer.Option("--phase", min=0, help="Model after this phase, 0: before training. Default: the last.")
]


def export(
    run: Run,
    folder: Annotated[Path, typer.Argument(help="Folder to write; an earlier export is replaced, nothing else is.")],
    phase: Phase = None,
    store: options.StoreUrl = None,
    as_json: options.Json = False,
) -> None:
    """Write a run's model, its tokenizer and its model card as a folder that loads with plain transformers."""
    from flows.export_folder import export_model, refuse_foreign
    from flows.exported_model import find_model

    refuse_foreign(folder.absolute())
    model = find_model(open_store(settings(store)), run, phase)
    target = export_model(model, folder)
    if as_json:
        options.print_json({"run_id": model.run_id, "node": model.node, "key": model.key, "folder": str(target)})
    else:
        said = f"{model.node} of run {model.run_id}: {len(model.files) + 1} files, {model.bytes:,} bytes in {target}"
        console.print(said, soft_wrap=True, markup=False)


def push(
    run: Run,
    repository: Annotated[str, typer.Argument(help="Repository of the Hugging Face hub, as owner/name.")],
    phase: Phase = None,
    private: Annotated[
        bool, typer.Option("--private", help="If the repository is not there, make it private.")
    ] = False,
    revision: Annotated[str, typer.Option("--revision", help="Branch; made if it is not there.")] = "main",
    store: options.StoreUrl = None,
    as_json: options.Json = False,
) -> None:
    """Push a run's model, its tokenizer and its model card to the Hugging Face hub (token: HF_TOKEN, or your login)."""
    from flows.exported_model import find_model
    from flows.hub_push import push_model

    if not re.fullmatch(REPOSITORY_PATTERN, repository):
        raise ConfigError(f"repository {repository!r} must look like owner/name")
    model = find_model(open_store(settings(store)), run, phase)
    url = push_model(model, repository, private=private, revision=revision)
    if as_json:
        options.print_json({"run_id": model.run_id, "node": model.node, "key": model.key, "url": url})
    else:
        console.print(f"{model.node} of run {model.run_id}: {url}", soft_wrap=True, markup=False)
