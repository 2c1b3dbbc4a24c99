"""What a run will do, before it does it: each stage as cached or to be run, why, and what it will cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from configs.schema import PhaseConfig, PretrainConfig, key_fields
from flows.graph import Node
from storage.store import ArtifactRef, BuildRequest, InputEntry, Manifest, Store
from storage.why import Difference, nearest
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
        seconds: time of the cached artifact, or what is expected: that of the nearest earlier run of the stage, for a
            training with as many steps as it has now. None when there is none.
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
        without_inputs = BuildRequest(node.stage, load_stage(node.stage).version, key_fields(node.config), {})
        seconds = _expected(history, node, nearest(history.of(node.stage), without_inputs))
        return PlannedNode(node, "depends", (f"after {_some(missing)}",), seconds, cost, None)
    request = build_request(node, artifacts)
    found = store.lookup(request.stage, request.key, verify=None if store.is_local else "size")
    if found.artifact is not None:
        if forced:
            return PlannedNode(node, "rerun", ("rerun asked for",), found.artifact.seconds, cost, found.artifact)
        reasons = (f"unless {_some(upstream)} gives the same bytes",) if upstream else ()
        return PlannedNode(
            node, "depends" if upstream else "cached", reasons, found.artifact.seconds, cost, found.artifact
        )
    difference = nearest(history.of(node.stage), request)
    seconds = _expected(history, node, difference)
    why = ["never run"] if difference is None else difference.describe()
    if found.problem is not None:
        why = [f"damaged: {found.problem}"]
    return PlannedNode(node, "run", tuple(why), seconds, cost, None)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{', '.join(names[:2])} and {len(names) - 2} more"


def _expected(history: _History, node: Node, difference: Difference | None) -> float | None:
    """Seconds, by the nearest earlier run of the stage."""
    if difference is None:
        return None
    earlier = next(item for item in history.of(node.stage) if item.key == difference.key)
    length = _length(node.config)
    if length is None:
        return earlier.seconds
    unit, amount = length
    figures = earlier.summary
    if not (figures.get("tokens_per_second") and figures.get("epochs")):  # no step, or of an earlier version
        return None
    tokens = amount if unit == "tokens" else amount * figures["tokens"] / figures["epochs"]
    return float(earlier.seconds - figures["step_seconds"] + tokens / figures["tokens_per_second"])


def _length(config: Any) -> tuple[str, float] | None:
    """How long a training is: a figure of its summary, and how much of it; None for other stages."""
    if not isinstance(config, PhaseConfig | PretrainConfig):
        return None
    if config.steps is not None:
        return "tokens", config.steps * config.rows_per_step * config.sequence_length
    return ("tokens", config.tokens) if config.tokens is not None else ("epochs", config.epochs or 0.0)


def _cost(node: Node) -> str:
    config: Any = node.config
    length = _length(config)
    if length is not None:
        unit, amount = length
        steps = "" if config.steps is None else f"{config.steps:,} steps, "
        return f"{steps}{amount:{'g' if unit == 'epochs' else ',.0f'}} {unit}"
    fields = key_fields(config)
    if "sentences" in fields:
        return f"{fields['sentences']:,} sentence pairs"
    return ""
