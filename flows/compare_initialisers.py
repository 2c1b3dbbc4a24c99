"""The flow `compare-initialisers`: initialisers of one language beside each other, before any training.

No class is defined here and annotations are not postponed: Prefect imports flow files by path, and would see classes
twice and postponed annotations not at all.
"""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from prefect import flow, get_run_logger
from pydantic import Field

from configs.load import available
from flows.comparison import ComparedStage, ComparisonRequest, initialisers, prepare_comparison
from flows.display import current_display
from flows.runner import drive
from flows.settings import settings
from flows.stage_tasks import publish_report, stage_tasks

if TYPE_CHECKING:
    Language = str
    Recipe = str
    Initialiser = str
else:  # drop-down lists
    Language = Literal[tuple(available("languages"))]
    Recipe = Literal[tuple(available("recipes"))]
    Initialiser = Literal[initialisers()]


@flow(
    name="compare-initialisers",
    flow_run_name="compare {language} {model}",
    description="Initialisers of one language beside each other: bits per byte of each model before any training.",
    validate_parameters=True,
)
def compare_initialisers(
    language: Annotated[Language, Field(description="Target language: a file of configs/languages.")] = "eo",
    initialisers: Annotated[
        list[Initialiser], Field(description="Initialisers to compare; none for all there are.")
    ] = [],  # noqa: B006  # Prefect copies it; a form needs a plain default
    model: Annotated[
        str, Field(description="Source model: a file of configs/models, or the folder of a local model.")
    ] = "tiny-english",
    recipe: Annotated[
        Recipe, Field(description="Recipe that says everything but the initialiser.")
    ] = "trans-tokenization",
    overrides: Annotated[
        list[str], Field(description="Changed values, one 'key=value' a row, for instance 'tokenizer.vocab_size=8000'.")
    ] = [],  # noqa: B006
    rerun: Annotated[list[ComparedStage], Field(description="Stages to run again although they are cached.")] = [],  # noqa: B006
) -> dict[str, Any]:
    """Compare initialisers.

    Args:
        language: Target language: a file of configs/languages.
        initialisers: Initialisers to compare; none for all there are.
        model: Source model: a file of configs/models, or the folder of a local model.
        recipe: Recipe that says everything but the initialiser.
        overrides: Changed values, one 'key=value' a row, for instance 'tokenizer.vocab_size=8000'.
        rerun: Stages to run again although they are cached.

    Returns:
        What became of each stage, a row for each initialiser, and the path of the report.
    """
    request = ComparisonRequest(language, tuple(initialisers), model, recipe, tuple(overrides), tuple(rerun))
    prepared = prepare_comparison(request, settings())
    current_display(get_run_logger()).plan(prepared.plan)
    result = drive(prepared, stage_tasks(prepared))
    publish_report(prepared, result.outcomes)
    return result.as_json()
