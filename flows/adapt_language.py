"""The flow `adapt-language`: every stage a Prefect task, whose state is *Cached* when its artifact is in the store.

The store is the only cache; Prefect's own is switched off. No class is defined here and annotations are not postponed:
Prefect imports flow files by path, and would see classes twice and postponed annotations not at all.
"""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from prefect import flow, get_run_logger
from pydantic import Field

from configs.load import available
from flows.display import current_display
from flows.graph import StageName
from flows.runner import drive, prepare
from flows.runs import RunRequest
from flows.settings import settings
from flows.stage_tasks import publish_report, stage_tasks

if TYPE_CHECKING:
    Language = str
    Recipe = str
else:  # drop-down lists of the names of the YAML files
    Language = Literal[tuple(available("languages"))]
    Recipe = Literal[tuple(available("recipes"))]


@flow(
    name="adapt-language",
    flow_run_name="{language} {model} {recipe}",
    description="Adapt a pretrained language model to a new language, as cached, resumable stages.",
    validate_parameters=True,
)
def adapt_language(
    language: Annotated[Language, Field(description="Target language: a file of configs/languages.")] = "eo",
    model: Annotated[
        str, Field(description="Source model: a file of configs/models, or the folder of a local model.")
    ] = "tiny-english",
    recipe: Annotated[Recipe, Field(description="Method: a file of configs/recipes.")] = "trans-tokenization",
    overrides: Annotated[
        list[str], Field(description="Changed values, one 'key=value' a row, for instance 'training.steps=200'.")
    ] = [],  # noqa: B006  # Prefect copies it; a form needs a plain default
    rerun: Annotated[list[StageName], Field(description="Stages to run again although they are cached.")] = [],  # noqa: B006
    until: Annotated[StageName | None, Field(description="Last stage to run; empty for the whole chain.")] = None,
) -> dict[str, Any]:
    """Adapt a source model to a language.

    Args:
        language: Target language: a file of configs/languages.
        model: Source model: a file of configs/models, or the folder of a local model.
        recipe: Method: a file of configs/recipes.
        overrides: Changed values, one 'key=value' a row, for instance 'training.steps=200'.
        rerun: Stages to run again although they are cached.
        until: Last stage to run; empty for the whole chain.

    Returns:
        What became of each stage, the table of results, and the path of the report.
    """
    request = RunRequest(language, model, recipe, tuple(overrides), tuple(rerun), until)
    prepared = prepare(request, settings())
    display = current_display(get_run_logger())
    display.plan(prepared.plan)
    result = drive(prepared, stage_tasks(prepared))
    publish_report(prepared, result.outcomes)
    if result.pushed is not None and result.pushed["error"] is not None:
        get_run_logger().warning("not pushed: %s", result.pushed["error"])
    return result.as_json()
