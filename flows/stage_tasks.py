"""The nodes of a run as Prefect tasks, and its report as an artifact; shared by the flows."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from prefect import get_run_logger, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.settings import get_current_settings
from prefect.states import Completed

from flows.display import current_display
from flows.execution import NodeOutcome, retryable
from flows.graph import Node, run_name
from flows.progress_artifacts import ProgressArtifacts
from flows.runner import NodeRunner, Preparation, show_and_execute
from flows.runs import load_report, stage_row
from storage.store import ArtifactRef
from tasks.contract import load_stage

RETRY_SECONDS = 10
GPU_TAG = "gpu"
GPU_STAGES = ("pretraining", "training", "evaluation")


def stage_tasks(prepared: Preparation) -> NodeRunner:
    """Runs a node of `prepared` as a Prefect task, whose state is *Cached* when its artifact is in the store."""
    states: dict[str, State] = {}

    def run_node(node: Node, artifacts: Mapping[str, ArtifactRef], force: bool) -> NodeOutcome:
        stage_task = task(
            name=node.stage,
            task_run_name=node.label,
            tags=_tags(node, prepared.request.language),
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

    return run_node


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


def publish_report(prepared: Preparation, outcomes: Sequence[NodeOutcome]) -> None:
    """The report as a Markdown artifact; made in the flow, because a cached task would not make it again."""
    data = load_report(prepared.store, outcomes)
    if data is None:
        return
    from tasks.report.pages import markdown  # jinja2

    text = markdown(data, [stage_row(outcome) for outcome in outcomes])
    key = re.sub(r"[^a-z0-9]+", "-", f"report-{run_name(prepared.run)}".lower()).strip("-")
    create_markdown_artifact(text, key=key, description=data["title"])
