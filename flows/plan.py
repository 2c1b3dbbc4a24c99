"""What a run will do, before it does it: each stage as cached or to be run, why, and what it will cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from configs.schema import PhaseConfig, PretrainConfig, key_fields
from flows.graph import Node
from storage.store import ArtifactRef, BuildRequest, InputEntry, Manifest, Store
from storage.why import nearest
from tasks.contract import load_stage

Status = Literal["cached", "run", "rerun", "depends"]


@dataclass(frozen=True)
class PlannedNode:
    """One line of a plan.

    Attributes:
        node: the stage.
        status: 'cached'; 'run'; 'rerun' (cached, but forced); 'depends' (runs unless what comes before gives the same
            bytes as an earlier run).
        reasons: why it runs, in words.
        seconds: expected time, from the nearest earlier run of the stage; None when there is none.
        cost: what is known of the work without an earlier run, for instance tokens to train on.
        artifact: the cached artifact.
    """

    node: Node
    status: Status
    reasons: tuple[str, ...]
    seconds: float | None
    cost: str
    artifact: ArtifactRef | None


def build_request(node: Node, artifacts: Mapping[str, ArtifactRef]) -> BuildRequest:
    """What the store needs to know of `node`, once the artifacts it reads are known.

    Raises:
        KeyError: an artifact that it reads is not in `artifacts`.
    """
    stage = load_stage(node.stage)
    inputs = {name: artifacts[source].as_input() for name, source in node.inputs.items()}
    inputs |= {name: InputEntry("", "", item.digest) for name, item in node.external.items()}
    inputs |= {f"file:{name}": InputEntry("", "", item.digest) for name, item in node.files.items()}
    return BuildRequest(stage=node.stage, version=stage.version, config=key_fields(node.config), inputs=inputs)


def make_plan(nodes: Sequence[Node], store: Store, forced: Sequence[str] = ()) -> tuple[PlannedNode, ...]:
    """The plan of a run.

    Args:
        nodes: the stages in the order they run.
        store: the artifact store.
        forced: ids of nodes to run again although they are cached.
    """
    artifacts: dict[str, ArtifactRef] = {}
    changing: set[str] = set()
    plan = []
    history = _History(store)
    for node in nodes:
        upstream = sorted(set(node.inputs.values()) & changing)
        planned = _plan_node(node, store, history, artifacts, upstream, node.id in forced)
        plan.append(planned)
        if planned.artifact is not None:
            artifacts[node.id] = planned.artifact
        if planned.status != "cached":
            changing.add(node.id)
    return tuple(plan)


class _History:
    """Manifests of each stage, read once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, list[Manifest]] = {}

    def of(self, stage: str) -> list[Manifest]:
        if stage not in self._known:
            self._known[stage] = list(self._store.manifests(stage))
        return self._known[stage]


def _plan_node(
    node: Node,
    store: Store,
    history: _History,
    artifacts: Mapping[str, ArtifactRef],
    upstream: Sequence[str],
    forced: bool,
) -> PlannedNode:
    cost = _cost(node)
    if any(source not in artifacts for source in node.inputs.values()):
        missing = [source for source in dict.fromkeys(node.inputs.values()) if source not in artifacts]
        return PlannedNode(node, "depends", (f"after {_some(missing)}",), _any_seconds(history, node), cost, None)
    request = build_request(node, artifacts)
    found = store.lookup(request.stage, request.key, verify=None if store.is_local else "size")
    if found.artifact is not None:
        if forced:
            return PlannedNode(node, "rerun", ("rerun asked for",), found.artifact.seconds, cost, found.artifact)
        reasons = (f"unless {_some(upstream)} gives the same bytes",) if upstream else ()
        return PlannedNode(
            node, "depends" if upstream else "cached", reasons, found.artifact.seconds, cost, found.artifact
        )
    if found.problem is not None:
        return PlannedNode(node, "run", (f"damaged: {found.problem}",), _any_seconds(history, node), cost, None)
    difference = nearest(history.of(node.stage), request)
    if difference is None:
        return PlannedNode(node, "run", ("never run",), None, cost, None)
    seconds = next(item.seconds for item in history.of(node.stage) if item.key == difference.key)
    return PlannedNode(node, "run", tuple(difference.describe()), seconds, cost, None)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{', '.join(names[:2])} and {len(names) - 2} more"


def _any_seconds(history: _History, node: Node) -> float | None:
    manifests = history.of(node.stage)
    return manifests[-1].seconds if manifests else None


def _cost(node: Node) -> str:
    config = node.config
    if isinstance(config, PhaseConfig | PretrainConfig):
        if config.steps is None:
            return f"{config.tokens:,} tokens" if config.tokens is not None else f"{config.epochs:g} epochs"
        tokens = config.steps * config.rows_per_step * config.sequence_length
        return f"{config.steps:,} steps, {tokens:,} tokens"
    fields: Mapping[str, Any] = key_fields(config)
    if "sentences" in fields:
        return f"{fields['sentences']:,} sentence pairs"
    return ""
