"""The flow `adapt-language`: every stage a Prefect task, whose state is *Cached* when its artifact is in the store.

The store is the only cache; Prefect's own is switched off. No class is defined here and annotations are not postponed:
Prefect imports flow files by path, and would see classes twice and postponed annotations not at all.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from prefect import flow, get_run_logger, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.settings import get_current_settings
from prefect.states import Completed
from pydantic import Field

from configs.load import available
from flows.display import current_display
from flows.execution import NodeOutcome, retryable
from flows.graph import Node, StageName, run_name
from flows.progress_artifacts import ProgressArtifacts
from flows.runner import Preparation, drive, prepare, show_and_execute
from flows.runs import RunRequest, load_report, stage_row
from flows.settings import settings
from storage.store import ArtifactRef
from tasks.contract import load_stage

if TYPE_CHECKING:
    Language = str
    Recipe = str
else:  # drop-down lists of the names of the YAML files
    Language = Literal[tuple(available("languages"))]
    Recipe = Literal[tuple(available("recipes"))]
RETRY_SECONDS = 10
GPU_TAG = "gpu"
GPU_STAGES = ("pretraining", "training", "evaluation")


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
    states: dict[str, State] = {}

    def run_node(node: Node, artifacts: Mapping[str, ArtifactRef], force: bool) -> NodeOutcome:
        stage_task = task(
            name=node.stage,
            task_run_name=node.label,
            tags=_tags(node, language),
            retries=load_stage(node.stage).retries,
            retry_delay_seconds=RETRY_SECONDS,
            retry_condition_fn=_retry,
            cache_policy=NO_CACHE,
            persist_result=False,
        )(lambda: _run_stage(prepared, node, artifacts, force))
        needed = [states[source] for source in dict.fromkeys(node.inputs.values())]
        states[node.id] = stage_task(wait_for=needed, return_state=True)
        outcome: NodeOutcome = states[node.id].result()
        return outcome

    result = drive(prepared, run_node)
    _publish_report(prepared, result.outcomes)
    return result.as_json()


def _tags(node: Node, language: str) -> set[str]:
    """Stage, language, and 'gpu' for stages that want one: for filters and concurrency limits.

    None on a temporary server: it serves this run alone, and asking it about limits takes 0.6 s a tagged task.
    """
    if get_current_settings().api.url is None:
        return set()
    return {node.stage, language} | ({GPU_TAG} if node.stage in GPU_STAGES else set())


def _retry(task: Any, task_run: Any, state: State) -> bool:
    error = state.result(raise_on_failure=False)
    return isinstance(error, BaseException) and retryable(error)


def _run_stage(prepared: Preparation, node: Node, artifacts: Mapping[str, ArtifactRef], force: bool) -> State:
    display = ProgressArtifacts(current_display(get_run_logger()))
    outcome = show_and_execute(display, prepared, node, artifacts, force)
    artifact = outcome.artifact
    message = f"{artifact.key[:12]}, {artifact.bytes:,} bytes, built in {artifact.seconds:.1f} s"
    name = "Cached" if outcome.status == "Cached" else "Completed"
    return Completed(name=name, message=message, data=outcome)


def _publish_report(prepared: Preparation, outcomes: tuple[NodeOutcome, ...]) -> None:
    """The report as a Markdown artifact; made in the flow, because a cached task would not make it again."""
    data = load_report(prepared.store, outcomes)
    if data is None:
        return
    from tasks.report.markdown import render_markdown  # jinja2

    text = render_markdown(data, [stage_row(outcome) for outcome in outcomes])
    key = re.sub(r"[^a-z0-9]+", "-", f"report-{run_name(prepared.run)}".lower()).strip("-")
    create_markdown_artifact(text, key=key, description=data["title"])
