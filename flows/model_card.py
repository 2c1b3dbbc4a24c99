"""What a model card is told by a run's configuration."""

from collections.abc import Sequence

from configs.schema import (
    BuiltModel,
    CardConfig,
    CardModel,
    CardSource,
    CorpusConfig,
    HubModel,
    HubSource,
    LocalModel,
    ReportNode,
    RunConfig,
)

TOLD = ("corpus", "bitext", "tokenizer", "fertility", "mapping", "training", "evaluation")


def phase_names(run: RunConfig) -> dict[int, str]:
    """Heading of each training phase, by its number."""
    return {i: f"phase {i} {phase.name}" for i, phase in enumerate(run.training.resolved(), start=1)}


def evaluated_models(run: RunConfig) -> dict[str, str]:
    """Heading of each evaluated model, by the evaluation's node id."""
    phases = {f"evaluation.{i}": name for i, name in phase_names(run).items()}
    return {"evaluation.source": "source", "evaluation.initial": "initial", **phases}


def card_config(run: RunConfig, nodes: Sequence[ReportNode], phase: int) -> CardConfig:
    """What the card of the model after phase number `phase` (0: the initial model) says.

    Args:
        run: the run's configuration.
        nodes: the run's nodes; those that the card does not tell about are left out.
        phase: number of the phase.
    """
    shown = [node for node in nodes if _is_told(node, phase)]
    ids = {node.node for node in shown}
    evaluated = f"evaluation.{phase or 'initial'}"
    return CardConfig(
        title=f"{run.model.name} in {run.language_name} by {run.recipe}",
        name=f"{run.model.name}-{run.language}-{run.recipe}",
        language=run.language,
        language_name=run.language_name,
        source_language=run.source_language,
        model=run.model.name,
        source=_model(run.model),
        helper=_model(run.helper) if run.helper is not None and _takes_helper(run) else None,
        recipe=run.recipe,
        paper=run.paper,
        evaluated=evaluated if evaluated in ids else None,
        sources=tuple(_sources(run, ids)),
        nodes=tuple(_headed(run, node) for node in shown),
    )


def _model(model: BuiltModel | HubModel | LocalModel) -> CardModel:
    repository = model.repository if isinstance(model, HubModel) else None
    return CardModel(name=model.name, repository=repository, license=model.license, homepage=model.homepage)


def _takes_helper(run: RunConfig) -> bool:
    return run.tokenizer.strategy == "existing" or "helper" in run.mapping.needs()


def _is_told(node: ReportNode, phase: int) -> bool:
    number = node.node.rpartition(".")[2]
    later = node.stage in ("training", "evaluation") and number.isdigit() and int(number) > phase
    return node.stage in TOLD and not later and node.node != "source.tokenizer"


def _headed(run: RunConfig, node: ReportNode) -> ReportNode:
    number = node.node.rpartition(".")[2]
    label = phase_names(run)[int(number)] if node.stage == "training" else node.label
    return node.model_copy(update={"label": label, "model": evaluated_models(run).get(node.node, "")})


def _sources(run: RunConfig, ids: set[str]) -> list[CardSource]:
    """The texts of the corpora and bitexts in `ids`."""
    further = {f"corpus.{name}": config for name, config in {**run.group, **run.mixed}.items()}
    bitexts = {"bitext" if code == run.source_language else f"bitext.{code}": text for code, text in _bitexts(run)}
    texts: dict[str, CorpusConfig] = {"corpus": run.corpus, **bitexts, **further}
    if isinstance(run.model, BuiltModel):
        texts["source.corpus"] = run.model.corpus
    return [
        CardSource(
            corpus=node,
            name=source.name,
            kind=source.kind,
            dataset=source.dataset if isinstance(source, HubSource) else None,
            subset=source.config if isinstance(source, HubSource) else None,
            license=source.license,
            homepage=source.homepage,
        )
        for node, text in texts.items()
        if node in ids
        for source in text.sources
    ]


def _bitexts(run: RunConfig) -> list[tuple[str, CorpusConfig]]:
    own = [] if run.bitext is None else [(run.source_language, run.bitext)]
    return [*own, *run.further_bitexts.items()]
