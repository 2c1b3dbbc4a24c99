"""The chain of stages of one run, as data: nodes with their configuration and inputs, in the order they run."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from configs.faults import ConfigError
from configs.schema import (
    AlignmentConfig,
    BitextConfig,
    BuiltModel,
    Config,
    CorpusConfig,
    HubModel,
    LocalModel,
    PhaseConfig,
    ReportConfig,
    ReportNode,
    RunConfig,
    SampleConfig,
    SampleSource,
)
from flows.inputs import (
    External,
    SourceModel,
    helper_model,
    helper_tokenizer,
    hub_model,
    local_files,
    local_model,
    pinned,
    source_files,
)
from flows.model_card import card_config, evaluated_models
from tasks.alignment.backends import registry
from tasks.contract import InputError

StageName = Literal[
    "sample", "corpus", "bitext", "tokenizer", "pretraining", "fertility", "alignment", "counts", "mapping",
    "initial-model", "embeddings", "training", "evaluation", "card", "report",
]  # fmt: skip


@dataclass(frozen=True)
class Node:
    """One stage of a run.

    Attributes:
        id: name within the run, for instance 'training.2'.
        stage: name of the stage.
        label: what people read, for instance 'align en-sw'.
        config: configuration of the stage.
        inputs: input name -> id of the node whose artifact it is.
        external: input name -> data from outside the store; handed to the stage as a folder.
        files: file name -> data from outside the store; handed to the stage as a file.
    """

    id: str
    stage: str
    label: str
    config: Config
    inputs: Mapping[str, str] = field(default_factory=dict)
    external: Mapping[str, External] = field(default_factory=dict)
    files: Mapping[str, External] = field(default_factory=dict)


class GraphBuilder:
    """Collects the nodes of a run; stages that several parts need (the sample) are there once."""

    def __init__(self, run: RunConfig, data_root: Path, index: Path) -> None:
        self.run = run
        self.data_root = data_root
        self.index = index
        self.nodes: dict[str, Node] = {}

    def add(self, node: Node) -> str:
        """Add `node`; its id."""
        self.nodes[node.id] = node
        return node.id

    def corpus(self, node_id: str, stage: str, label: str, config: CorpusConfig) -> str:
        """Add a corpus or bitext with the samples it reads."""
        config = pinned(config)
        inputs = {}
        for source in config.sources:
            if isinstance(source, SampleSource):
                sample = SampleConfig(sentences=source.sentences, seed=source.seed)
                inputs[f"sample.{source.name}"] = self._sample(sample)
        files = source_files(config, self.data_root, self.index)
        return self.add(Node(node_id, stage, label, config, inputs, files=files))

    def _sample(self, config: SampleConfig) -> str:
        same = [node.id for node in self.nodes.values() if node.config == config]
        if same:
            return same[0]
        count = sum(node.stage == "sample" for node in self.nodes.values())
        return self.add(Node("sample" if count == 0 else f"sample.{count + 1}", "sample", "sample en-eo", config))


@dataclass(frozen=True)
class _Parts:
    """Where the source model and its tokenizer come from: a node, or outside."""

    model: str | External
    tokenizer: str | External


def _node(node_id: str, stage: str, label: str, config: Config, inputs: Mapping[str, str | External]) -> Node:
    own = {name: value for name, value in inputs.items() if isinstance(value, str)}
    outside = {name: value for name, value in inputs.items() if isinstance(value, External)}
    return Node(node_id, stage, label, config, own, outside)


def build_graph(run: RunConfig, data_root: Path, index: Path) -> tuple[Node, ...]:
    """The stages of `run`, each after those it needs.

    Args:
        run: the configuration.
        data_root: folder that relative paths of sources start from.
        index: folder in which digests of outside files are remembered.

    Raises:
        InputError: data or a source model from outside is missing or cannot be used.
    """
    builder = GraphBuilder(run, data_root, index)
    source = _source_model(builder)
    language, pair = run.language, f"{run.source_language}-{run.language}"
    add = builder.add
    corpus = builder.corpus("corpus", "corpus", f"corpus {language}", run.corpus)
    bitexts = {code: _bitext(builder, code, config) for code, config in run.bitexts_read.items()}
    vocabulary = _vocabulary_inputs(builder, source, corpus)
    tokenizer = add(_node("tokenizer", "tokenizer", f"tokenizer {language}", run.tokenizer, vocabulary))
    both = {"tokenizer": tokenizer, "source_tokenizer": source.tokenizer}
    fertility = _node("fertility", "fertility", f"fertility {language}", run.fertility, {**both, "corpus": corpus})
    held_out = {"corpus": corpus, "fertility": add(fertility)}  # the initial model is verified on it
    read = {"corpus": corpus, "source_model": source.model, **_from_bitexts(builder, both, bitexts)}
    if "helper" in run.mapping.needs():
        helper = required_helper(run, f"mapping.method {run.mapping.method!r}")
        read["helper"] = helper_model(helper, data_root, index).model
    wanted = (*run.mapping.needs(), *(f"counts.{code}" for code in run.mapping.merged_languages()))
    needed: dict[str, str | External] = {name: read[name] for name in wanted}
    node = _node("mapping", "mapping", f"mapping {pair}", run.mapping, {**both, **needed})
    mapping = add(replace(node, files=local_files(run.mapping.files(), data_root, index, "mapping {!r}")))
    model = add(
        _node(
            "initial-model",
            "initial-model",
            f"initial model {language}",
            run.initial_model,
            {"source_model": source.model, "tokenizer": tokenizer, "mapping": mapping, **held_out},
        )
    )
    beside = {"model": model, "source_model": source.model, "mapping": mapping}
    beside |= {"helper": read["helper"]} if "helper" in read else {}
    add(_node("embeddings", "embeddings", f"embeddings {language}", run.embeddings, {**both, **beside}))
    models: dict[str, str | External] = {"source": source.model, "initial": model}
    for number, phase in enumerate(run.training.resolved(), start=1):
        inputs: dict[str, str | External] = {"model": model, "corpus": corpus, **_mixed_corpora(builder, phase)}
        if phase.trainable in ("new-rows", "adapter"):
            inputs["mapping"] = mapping
        if phase.trainable == "adapter":  # over the source model; the initial one has the new tokenizer
            inputs |= {"model": source.model, "vocabulary": model}
        label = f"train {language} {number} {phase.name}"
        model = add(_node(f"training.{number}", "training", label, phase, inputs))
        models[str(number)] = model
    for name, evaluated in models.items():
        inputs = {"model": evaluated, "corpus": corpus, "reference_tokenizer": tokenizer}
        add(_node(f"evaluation.{name}", "evaluation", f"evaluate {language} {name}", run.evaluation, inputs))
    add(_card(run, tuple(builder.nodes.values())))
    add(_report(run, tuple(builder.nodes.values()), source))
    return tuple(builder.nodes.values())


def _source_model(builder: GraphBuilder) -> _Parts:
    config = builder.run.model
    if isinstance(config, BuiltModel):
        name = config.language
        corpus = builder.corpus("source.corpus", "corpus", f"corpus {name}", config.corpus)
        tokenizer = builder.add(
            _node("source.tokenizer", "tokenizer", f"tokenizer {name}", config.tokenizer, {"corpus": corpus})
        )
        inputs = {"corpus": corpus, "tokenizer": tokenizer}
        label = f"pretrain {config.name}"
        return _Parts(
            builder.add(_node("source.pretraining", "pretraining", label, config.pretraining, inputs)), tokenizer
        )
    outside: SourceModel
    if isinstance(config, HubModel):
        outside = hub_model(config)
    else:
        outside = local_model(config, builder.data_root, builder.index)
    return _Parts(outside.model, outside.tokenizer)


def _vocabulary_inputs(builder: GraphBuilder, source: _Parts, corpus: str) -> dict[str, str | External]:
    """What the target vocabulary is made from: text, and the tokenizer that its strategy starts from.

    Raises:
        InputError: a file is missing, or the strategy needs a helper model that is not there.
    """
    run = builder.run
    inputs: dict[str, str | External] = {"corpus": corpus}
    for code, config in sorted(run.group.items()):
        inputs[f"corpus.{code}"] = _further_corpus(builder, code, config)
    if run.tokenizer.strategy == "train" and run.tokenizer.keep_added_tokens:
        inputs["source_tokenizer"] = source.tokenizer
    if run.tokenizer.strategy == "source":
        inputs["source_tokenizer"] = source.tokenizer
    if run.tokenizer.strategy == "expand":
        inputs |= {"source_tokenizer": source.tokenizer, **_source_text(builder)}
    if run.tokenizer.strategy == "existing":
        inputs["helper"] = helper_tokenizer(
            required_helper(run, "tokenizer.strategy 'existing'"), builder.data_root, builder.index
        )
    return inputs


def _further_corpus(builder: GraphBuilder, name: str, config: CorpusConfig) -> str:
    """The node of a corpus that may be there already."""
    known = [node.id for node in builder.nodes.values() if node.stage == "corpus" and node.config == pinned(config)]
    return known[0] if known else builder.corpus(f"corpus.{name}", "corpus", f"corpus {name}", config)


def _mixed_corpora(builder: GraphBuilder, phase: PhaseConfig) -> dict[str, str]:
    """The texts that a phase mixes with the target's, as inputs 'corpus.<name>'."""
    if phase.mixture is None:
        return {}
    run = builder.run
    corpora = {**run.group, **run.mixed}
    names = set(phase.mixture.names)
    if phase.mixture.shares is None:  # the source language is there once, by its code or as 'source'
        names |= set(run.group) - ({run.source_language} if "source" in names else set())
    return {
        f"corpus.{name}": _further_corpus(builder, name, corpora[name]) for name in sorted(names) if name != "target"
    }


def _bitext(builder: GraphBuilder, code: str, config: BitextConfig) -> str:
    """Add the parallel text with the source language `code`; its node."""
    run = builder.run
    return builder.corpus(_of_language("bitext", run, code), "bitext", f"bitext {code}-{run.language}", config)


def _of_language(name: str, run: RunConfig, code: str) -> str:
    """A node's id; the code of a source language that is not the usual one follows it."""
    return name if code == run.source_language else f"{name}.{code}"


def _from_bitexts(
    builder: GraphBuilder, tokenizers: Mapping[str, str | External], bitexts: Mapping[str, str]
) -> dict[str, str | External]:
    """The bitext and what the mapping needs of what is counted on it, by the mapping's input names.

    Args:
        builder: collects the nodes.
        tokenizers: the inputs `tokenizer` and `source_tokenizer` of an alignment.
        bitexts: nodes of the parallel texts, by the code of the source language.

    Raises:
        InputError: the aligner cannot do what is asked, its program is not there, or a file is missing.
    """
    run, merged = builder.run, builder.run.mapping.merged_languages()
    made: dict[str, str | External] = {}
    for code, bitext in bitexts.items():
        own = code == run.source_language
        needs = {*(run.mapping.needs() if own else ()), *(("counts",) if code in merged else ())}
        found = {"bitext": bitext}
        if not needs.isdisjoint(("alignment", "counts")):
            found["alignment"] = _alignment(builder, tokenizers, code, bitext)
        if "counts" in needs:
            found["counts"] = made[f"counts.{code}"] = _counts(builder, code, found["alignment"])
        made |= found if own else {}
    return made


def _alignment(builder: GraphBuilder, tokenizers: Mapping[str, str | External], code: str, bitext: str) -> str:
    run = builder.run
    label = f"align {code}-{run.language}"
    inputs = {**tokenizers, "bitext": bitext}
    node = _node(_of_language("alignment", run, code), "alignment", label, run.alignment, inputs)
    return builder.add(replace(node, files=_aligner_files(run.alignment, builder.data_root, builder.index)))


def _counts(builder: GraphBuilder, code: str, alignment: str) -> str:
    """Add the counts on an alignment, with those corpus weights that are for its sources."""
    run = builder.run
    names = {source.name for source in run.bitexts_read[code].sources}
    weights = {name: weight for name, weight in run.counts.corpus_weights.items() if name in names}
    config = run.counts.model_copy(update={"corpus_weights": weights})
    label = f"counts {code}-{run.language}"
    return builder.add(_node(_of_language("counts", run, code), "counts", label, config, {"alignment": alignment}))


def _source_text(builder: GraphBuilder) -> dict[str, str]:
    """Text of the source language, on which an expanded vocabulary proves that it cuts that as before; may be none."""
    run = builder.run
    if "source.corpus" in builder.nodes:
        return {"source_corpus": "source.corpus"}
    if run.bitext is None:
        return {}
    if "bitext" not in builder.nodes:
        _bitext(builder, run.source_language, run.bitext)
    return {"bitext": "bitext"}


def required_helper(run: RunConfig, what: str) -> LocalModel | HubModel:
    """The helper model of `run`; `what` needs it, for the error.

    Raises:
        InputError: none is set.
    """
    if run.helper is None:
        raise InputError(
            f"{what} needs a helper model of language {run.language!r}, but `helper` is not set; put it into the "
            "language's YAML, or override helper='{kind: local, name: …, path: …}'"
        )
    return run.helper


def _aligner_files(config: AlignmentConfig, data_root: Path, index: Path) -> dict[str, External]:
    """The aligner's program, by the aligner's name, and the files that it reads, by theirs.

    Raises:
        InputError: the aligner cannot do what is asked, its program is not there, or a file is missing.
    """
    files = local_files(registry.files(config), data_root, index, "alignment.{}")
    program = registry.program(config)
    if program is not None:
        files[config.aligner] = External(registry.identity(config), lambda: program, str(program))
    return files


def _card(run: RunConfig, nodes: Sequence[Node]) -> Node:
    told = [ReportNode(node=node.id, stage=node.stage, label=node.label) for node in nodes]
    config = card_config(run, told, len(run.training.resolved()))
    inputs: dict[str, str | External] = {node.node: node.node for node in config.nodes}
    return _node("card", "card", f"card {run.language}", config, inputs)


def _report(run: RunConfig, nodes: Sequence[Node], source: _Parts) -> Node:
    columns = evaluated_models(run)
    config = ReportConfig(
        title=f"{run.language_name} from {run.model.name} by {run.recipe}",
        language=run.language,
        language_name=run.language_name,
        model=run.model.name,
        recipe=run.recipe,
        paper=run.paper,
        nodes=tuple(
            ReportNode(node=node.id, stage=node.stage, label=node.label, model=columns.get(node.id, ""))
            for node in nodes
        ),
    )
    inputs: dict[str, str | External] = {node.id: node.id for node in nodes}
    if isinstance(source.tokenizer, External):
        inputs["source_tokenizer"] = source.tokenizer
    return _node("report", "report", f"report {run.language}", config, inputs)


def ancestors(nodes: Sequence[Node], wanted: Iterable[str]) -> tuple[Node, ...]:
    """The nodes with the ids `wanted` and all that they need, in the order of `nodes`."""
    needed = set(wanted)
    for node in reversed(nodes):
        if node.id in needed:
            needed.update(node.inputs.values())
    return tuple(node for node in nodes if node.id in needed)


def up_to(nodes: Sequence[Node], until: str | None) -> tuple[Node, ...]:
    """The nodes of stage `until` and all that they need; all nodes when it is None.

    Raises:
        ConfigError: no node of the run has that stage or id.
    """
    if until is None:
        return tuple(nodes)
    return ancestors(nodes, matching(nodes, [until], "until"))


def matching(nodes: Sequence[Node], names: Iterable[str], what: str) -> list[str]:
    """Ids of the nodes whose id or stage is one of `names`.

    Raises:
        ConfigError: a name fits no node; `what` says whose fault it is.
    """
    found = []
    for name in names:
        ids = [node.id for node in nodes if name in (node.id, node.stage)]
        if not ids:
            known = ", ".join(dict.fromkeys(node.stage for node in nodes))
            raise ConfigError(f"{what}: this run has no stage {name!r}; it has {known}")
        found.extend(ids)
    return found


def run_name(run: RunConfig) -> str:
    """Short name of language, model and recipe, fit for a folder."""
    return f"{run.language}.{run.model.name}.{run.recipe}"
