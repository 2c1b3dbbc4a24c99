"""Running one node of a run against the store; used alike with and without Prefect."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from flows.graph import Node
from flows.plan import build_request
from storage.locks import LockHolder
from storage.store import ArtifactRef, Built, Store
from tasks.contract import InputError, Progress, StageContext, load_stage, no_progress
from tasks.isolation import run_stage

Outcome = Literal["Cached", "Completed", "Rebuilt"]


@dataclass(frozen=True)
class NodeOutcome:
    """What became of a node.

    Attributes:
        node: its id.
        stage: its stage.
        label: what people read.
        status: 'Cached', 'Completed', or 'Rebuilt' (run again on request or because the artifact was damaged).
        artifact: its artifact.
        seconds: time spent in this run.
    """

    node: str
    stage: str
    label: str
    status: Outcome
    artifact: ArtifactRef
    seconds: float


def execute(
    node: Node,
    artifacts: Mapping[str, ArtifactRef],
    store: Store,
    *,
    force: bool = False,
    progress: Progress = no_progress,
    on_line: Callable[[str], None] = lambda line: None,
    on_note: Callable[[str, bool], None] = lambda text, warning: None,
) -> NodeOutcome:
    """Take the artifact of `node` from the store, or build it.

    Args:
        node: what is to be done.
        artifacts: artifacts of the nodes that it reads, by node id.
        store: the artifact store.
        force: build it although it is there.
        progress: told how far the stage is.
        on_line: called with each line that the stage prints or logs.
        on_note: called with what a person should know, and whether it is a warning.

    Raises:
        InputError: the person's data or configuration cannot be used.
        StageFailed: the stage failed.
    """
    stage = load_stage(node.stage)
    damaged: list[str] = []

    def build(out: Path, work: Path) -> Built:
        context = StageContext(
            config=node.config,
            inputs={
                **{name: store.open(artifacts[source]) for name, source in node.inputs.items()},
                **{name: item.locate() for name, item in node.external.items()},
            },
            files={name: item.locate() for name, item in node.files.items()},
            out=out,
            work=work,
            progress=progress,
            note=lambda text: on_note(text, False),
            measurements=_measurements(node, artifacts, store) if stage.reads_measurements else {},
        )
        result = run_stage(stage, context, on_line)
        rejected = result.summary.get("rejected") or {}
        if rejected:
            counts = ", ".join(f"{count:,} {reason}" for reason, count in rejected.items())
            on_note(f"rejected {counts} (tables rejections and rejection_examples of {node.stage})", False)
        return Built(summary=result.summary, measurements=result.measurements)

    def problem(text: str) -> None:
        damaged.append(text)
        on_note(f"the stored artifact is damaged and will be built again: {text}", True)

    told = False

    def waiting(seconds: float, holder: LockHolder | None) -> None:
        nonlocal told
        if not told:
            who = "another process" if holder is None else f"process {holder.pid} on {holder.host}"
            on_note(f"waiting for {who}, which is building it", False)
            told = True

    started = time.monotonic()
    request = build_request(node, artifacts)
    outcome = store.get_or_build(request, build, force=force, on_wait=waiting, on_problem=problem)
    status: Outcome = "Completed"
    if outcome.status == "cached":
        status = "Cached"
    elif damaged or force:
        status = "Rebuilt"
    return NodeOutcome(node.id, node.stage, node.label, status, outcome.artifact, round(time.monotonic() - started, 3))


def _measurements(node: Node, artifacts: Mapping[str, ArtifactRef], store: Store) -> dict[str, Path]:
    """The measurements of the builds of what `node` reads, by input name."""
    found = {name: store.measurements(artifacts[source]) for name, source in node.inputs.items()}
    return {name: path for name, path in found.items() if path is not None}


def retryable(error: BaseException) -> bool:
    """Whether trying again can help: not where the person's input is at fault."""
    return isinstance(error, Exception) and not isinstance(error, InputError)
