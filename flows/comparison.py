"""A comparison of initialisers as one run: the stages that they share are there once, the others once for each."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Literal

from configs.faults import ConfigError
from configs.load import compose, load_recipe
from configs.schema import (
    METHODS_OF_SETTING,
    ComparisonConfig,
    MappingConfig,
    ReportNode,
    RunConfig,
    Skipped,
    key_fields,
    method_sections,
)
from flows.graph import Node, ancestors, build_graph, matching
from flows.plan import make_plan
from flows.runner import Preparation, Tolerance
from flows.runs import RunRequest, new_run_id
from flows.settings import Settings, open_store
from storage.store import Store
from tasks.contract import InputError

NAME = "compare-initialisers"
NEEDS_NOTHING = "mean"
WANTED = ("evaluation.initial", "evaluation.source")
ComparedStage = Literal[
    "sample", "corpus", "bitext", "tokenizer", "pretraining", "fertility", "alignment", "counts", "mapping",
    "initial-model", "evaluation", "comparison",
]  # fmt: skip
COMPARED = {"mapping": "mapping", "initial-model": "model", "evaluation.initial": "evaluation"}
"""Node of a run -> name of the comparison's input, which the initialiser's name follows."""


@dataclass(frozen=True)
class ComparisonRequest:
    """What a comparison is asked to do.

    Attributes:
        language: name of the target language.
        initialisers: names; empty: all there are.
        model: name of the source model, or the folder of one.
        recipe: name of the recipe that says everything but the initialiser.
        overrides: 'key=value' texts; those of one initialiser's section (mapping.focus...) reach it alone.
        rerun: stages (or node ids) to run again although they are cached.
    """

    language: str
    initialisers: tuple[str, ...] = ()
    model: str = "tiny-english"
    recipe: str = "trans-tokenization"
    overrides: tuple[str, ...] = ()
    rerun: tuple[str, ...] = ()


@dataclass(frozen=True)
class Branches:
    """The graphs of several initialisers as one.

    Attributes:
        nodes: every node once, in an order in which each comes after those it needs.
        ids: initialiser -> id in its own graph -> id here.
    """

    nodes: tuple[Node, ...]
    ids: Mapping[str, Mapping[str, str]]


def initialisers() -> tuple[str, ...]:
    """The names of all initialisers, in alphabetical order."""
    from tasks.embeddings.registry import INITIALISERS

    return tuple(sorted(INITIALISERS))


def prepare_comparison(request: ComparisonRequest, where: Settings) -> Preparation:
    """Read the configuration of each initialiser, join their graphs, and plan.

    Initialisers for which the language or the machine lacks something are left out; the comparison says why.

    Raises:
        ConfigError: a name or an override cannot be used.
        InputError: what every initialiser needs is missing, or what each of them needs.
    """
    names = _checked(request.initialisers)
    for text in request.overrides:
        _refuse_unread(text, names)
    store = open_store(where)
    base = _compose(request, NEEDS_NOTHING)
    _graph(base, where, store)  # its faults are those of the language or the model, not of an initialiser
    graphs, skipped = _graphs(request, names, base, where, store)
    branches = join(graphs)
    own_ids = branches.ids.values()
    node = _comparison(base, request, branches, skipped)
    nodes = (*branches.nodes, node)
    optional = frozenset(item.id for item in branches.nodes if not all(item.id in ids.values() for ids in own_ids))
    tolerance = Tolerance(optional, _without)
    forced = tuple(matching(nodes, request.rerun, "rerun"))
    run = base.model_copy(update={"recipe": NAME})
    asked = RunRequest(request.language, request.model, NAME, request.overrides, request.rerun)
    plan = make_plan(nodes, store, forced)
    return Preparation(asked, run, nodes, forced, store, plan, new_run_id(run), tolerance)


def left_out(prepared: Preparation) -> tuple[Skipped, ...]:
    """The initialisers that a prepared comparison does without from the start, and why."""
    config = prepared.nodes[-1].config
    return config.skipped if isinstance(config, ComparisonConfig) else ()


def _graphs(
    request: ComparisonRequest, names: Sequence[str], base: RunConfig, where: Settings, store: Store
) -> tuple[dict[str, tuple[Node, ...]], dict[str, str]]:
    """The graph of each initialiser that can run, and for the others why they cannot.

    Raises:
        ConfigError: an override cannot be used.
        InputError: none can run.
    """
    graphs: dict[str, tuple[Node, ...]] = {}
    skipped: dict[str, str] = {}
    for name in names:
        try:
            graphs[name] = _graph(_compose(request, name), where, store)
        except ConfigError as error:
            if _fits_by_itself(request, name):
                raise
            skipped[name] = str(error)
        except InputError as error:
            skipped[name] = str(error)
    if not graphs:
        reasons = "\n".join(f"{name}: {reason}" for name, reason in skipped.items())
        raise InputError(f"none of the initialisers can run:\n{reasons}")
    return graphs, skipped


def _checked(wanted: Sequence[str]) -> tuple[str, ...]:
    known = initialisers()
    for name in wanted:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else "."
            raise ConfigError(f"no initialiser named {name!r}{hint} Known: {', '.join(known)}")
    return tuple(dict.fromkeys(wanted)) or known


def _refuse_unread(override: str, names: Sequence[str]) -> None:
    """Refuse an override that would choose the initialiser, or that none of those compared reads."""
    parts = _key(override)
    if parts in (["mapping"], ["mapping", "method"]):
        raise ConfigError(f"override {override!r}: a comparison chooses the initialisers by --initialisers")
    readers = _readers(parts)
    if readers is not None and not set(readers) & set(names):
        wanted = ", ".join(repr(name) for name in readers)
        raise ConfigError(f"override {override!r} is read by {wanted} alone, and compared are: {', '.join(names)}")


def _readers(parts: Sequence[str]) -> tuple[str, ...] | None:
    """The initialisers that alone read the value with this key; None where all do, or where there is no such key."""
    if parts[0] != "mapping" or len(parts) < 2:
        return None
    return (parts[1].replace("_", "-"),) if parts[1] in method_sections() else METHODS_OF_SETTING.get(parts[1])


def _compose(request: ComparisonRequest, name: str) -> RunConfig:
    """The recipe with the initialiser `name`, which gets its defaults and the overrides that are meant for it.

    Args:
        request: what is compared.
        name: the initialiser.

    Raises:
        ConfigError: an override cannot be used, or the language lacks what the initialiser needs.
    """
    recipe = load_recipe(request.recipe).mapping
    plain = {"method": name, "seed": recipe.seed}
    mapping = recipe if recipe.method == name else MappingConfig.model_validate(plain)
    own = [text for text in request.overrides if name in (_readers(_key(text)) or (name,))]
    whole = "mapping=" + json.dumps(mapping.model_dump(mode="json"))
    return compose(request.language, request.model, request.recipe, (whole, *own))


def _fits_by_itself(request: ComparisonRequest, name: str) -> bool:
    """Whether the initialiser could run but for the overrides of its parameters."""
    plain = tuple(text for text in request.overrides if _key(text)[0] != "mapping")
    try:
        _compose(replace(request, overrides=plain), name)
    except ConfigError:
        return False
    return plain != request.overrides


def _key(override: str) -> list[str]:
    return [part.strip() for part in override.partition("=")[0].split(".")]


def _graph(run: RunConfig, where: Settings, store: Store) -> tuple[Node, ...]:
    """The stages up to the measured initial model, and the measured source model."""
    nodes = build_graph(run, where.data_root, store.layout.root / "index")
    return ancestors(nodes, WANTED)


def join(graphs: Mapping[str, Sequence[Node]]) -> Branches:
    """Several graphs as one: what is the same in all that have it is there once, the rest once for each.

    A node is the same where its stage, configuration and inputs are; where a node id stands for different things, the
    initialiser's name follows it.

    Args:
        graphs: initialiser -> its nodes, each after those it needs.
    """
    identities: dict[str, dict[str, str]] = {}
    for name, nodes in graphs.items():
        known: dict[str, str] = {}
        for node in nodes:
            known[node.id] = _identity(node, known)
        identities[name] = known
    meanings: dict[str, set[str]] = {}
    for known in identities.values():
        for node_id, identity in known.items():
            meanings.setdefault(node_id, set()).add(identity)
    joined: dict[str, Node] = {}
    ids: dict[str, dict[str, str]] = {}
    for name, nodes in graphs.items():
        own = {node.id: node.id if len(meanings[node.id]) == 1 else f"{node.id}.{name}" for node in nodes}
        ids[name] = own
        for node in nodes:
            label = node.label if own[node.id] == node.id else f"{node.label} {name}"
            inputs = {key: own[source] for key, source in node.inputs.items()}
            joined.setdefault(own[node.id], replace(node, id=own[node.id], label=label, inputs=inputs))
    return Branches(tuple(joined.values()), ids)


def _identity(node: Node, known: Mapping[str, str]) -> str:
    outside = {**node.external, **{f"file:{name}": item for name, item in node.files.items()}}
    parts = [
        node.stage,
        key_fields(node.config),
        {name: known[source] for name, source in node.inputs.items()},
        {name: item.digest for name, item in outside.items()},
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _comparison(base: RunConfig, request: ComparisonRequest, branches: Branches, skipped: Mapping[str, str]) -> Node:
    inputs = {
        f"{role}.{name}": ids[node_id]
        for name, ids in branches.ids.items()
        for node_id, role in COMPARED.items()
        if node_id in ids
    }
    first = next(iter(branches.ids.values()), {})
    inputs |= {name: first[name] for name in ("evaluation.source", "tokenizer") if name in first}
    labels = {node.id: node for node in branches.nodes}
    config = ComparisonConfig(
        title=f"Initialisers of {base.language_name} from {base.model.name}",
        language=base.language,
        language_name=base.language_name,
        model=base.model.name,
        recipe=request.recipe,
        paper=base.paper,
        nodes=tuple(ReportNode(node=i, stage=labels[i].stage, label=labels[i].label) for i in inputs.values()),
        initialisers=tuple(branches.ids),
        skipped=tuple(Skipped(initialiser=name, reason=reason) for name, reason in skipped.items()),
        embeddings=base.embeddings,
    )
    return Node("comparison", "comparison", f"compare {base.language}", config, inputs)


def _without(node: Node, lost: Mapping[str, str]) -> Node:
    """The comparison without the initialisers of which a node is lost, which are said to be left out, and why."""
    config = node.config
    assert isinstance(config, ComparisonConfig)
    reasons: dict[str, str] = {}
    for name in config.initialisers:
        own = [node.inputs[f"{role}.{name}"] for role in COMPARED.values()]
        why = [lost[i] for i in own if i in lost]
        if why:
            reasons[name] = why[0]
    changed = config.model_copy(
        update={
            "initialisers": tuple(name for name in config.initialisers if name not in reasons),
            "skipped": (*config.skipped, *(Skipped(initialiser=name, reason=text) for name, text in reasons.items())),
            "nodes": tuple(item for item in config.nodes if item.node not in lost),
        }
    )
    gone = {f"{role}.{name}" for role in COMPARED.values() for name in reasons}
    return replace(node, config=changed, inputs={key: i for key, i in node.inputs.items() if key not in gone})
