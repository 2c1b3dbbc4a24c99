"""What a model card tells, gathered from the artifacts of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from configs.schema import CardConfig, CardSource
from tasks.report.artifacts import Artifact, find_artifacts, of_stage
from tasks.report.corpora import corpora
from tasks.report.data import Row
from tasks.report.losses import losses
from tasks.report.mapping import origins, weighted_coverage
from tasks.report.results import SPEED_UNITS, results
from tasks.report.segmentation import fertility
from tasks.report.stages import libraries

COUNTED = ("train", "validation", "test")
# Values that one way to train, or one objective, alone has.
READ_BY = {"layers": "bottom-top", "lora": "lora", "adapter": "adapter", "extra_heads": "mtp"}
CURVE = ("steps", "tokens", "first", "last", "best", "texts")


@dataclass(frozen=True)
class CardFacts:
    """Everything a card says. A part whose nodes the run does not have is empty or None.

    Attributes:
        config: what no artifact holds: names, licences, the recipe.
        sources: corpus (label), source (a CardSource as dict), revision (of a hub data set, or None), train, validation
            and test (texts or pairs).
        rejections: corpus (label), source, reason, count.
        vocabulary: strategy, algorithm (None where the strategy has none) and size, or None.
        fertility: the rows of fertility.parquet.
        mapping: method, size, coverage (share of the training text) and origins (see `tasks.report.mapping.origins`),
            or None.
        phases: label, key, parameters_trained, parameters, trainable, learning_rate, config (the values that
            the phase reads), steps, tokens, first, last, best, texts (see `tasks.report.losses`).
        results: the table of results (see `tasks.report.results`), without speeds.
        measured: split and sentences of the evaluation, or None.
        libraries: version of each library, by name.
    """

    config: CardConfig
    sources: list[Row]
    rejections: list[Row]
    vocabulary: Row | None
    fertility: list[Row]
    mapping: Row | None
    phases: list[Row]
    results: list[Row]
    measured: Row | None
    libraries: dict[str, str]


def collect(config: CardConfig, inputs: Mapping[str, Path]) -> CardFacts:
    """The facts of the card.

    Args:
        config: what no artifact holds, and the nodes.
        inputs: folder of each node, by node id, with manifest.json; any may be missing.
    """
    artifacts = find_artifacts(config.nodes, inputs)
    texts, (rows, totals) = corpora(artifacts), results(artifacts)
    revisions = {artifact.node: _revisions(artifact) for artifact in of_stage(artifacts, "corpus", "bitext")}
    mapping = _mapping(artifacts)
    return CardFacts(
        config=config,
        sources=[_source(source, texts, revisions.get(source.corpus, {})) for source in config.sources],
        rejections=[
            {"corpus": text["label"], "source": row["corpus"], "reason": row["reason"], "count": row["count"]}
            for text in texts
            for row in text["rejections"]
        ],
        vocabulary=_vocabulary(artifacts, mapping),
        fertility=fertility(artifacts),
        mapping=mapping,
        phases=_phases(artifacts),
        results=[row for row in rows if row["metric"] not in SPEED_UNITS],
        measured=next(({"split": row["split"], "sentences": row["sentences"]} for row in totals), None),
        libraries=libraries(artifacts),
    )


def _source(source: CardSource, texts: Sequence[Row], revisions: Mapping[str, str]) -> Row:
    kept = {
        row["split"]: row["texts"]
        for text in texts
        if text["node"] == source.corpus
        for row in text["kept"]
        if row["corpus"] == source.name
    }
    label = next((text["label"] for text in texts if text["node"] == source.corpus), source.corpus)
    counts = {split: kept.get(split, 0) for split in COUNTED}
    return {"corpus": label, "source": source.model_dump(), "revision": revisions.get(source.name), **counts}


def _revisions(artifact: Artifact) -> dict[str, str]:
    """The commit of each source that is a data set on the hub, by the source's name."""
    sources = (artifact.manifest().get("config") or {}).get("sources") or []
    return {source["name"]: source["revision"] for source in sources if source.get("revision")}


def _vocabulary(artifacts: Sequence[Artifact], mapping: Row | None) -> Row | None:
    for artifact in of_stage(artifacts, "tokenizer"):
        config = artifact.manifest().get("config") or {}
        trained = config.get("strategy") == "train"
        return {
            "strategy": config.get("strategy"),
            "algorithm": config.get("algorithm") if trained else None,
            "size": None if mapping is None else mapping["size"],
        }
    return None


def _mapping(artifacts: Sequence[Artifact]) -> Row | None:
    for artifact in of_stage(artifacts, "mapping"):
        tokens = artifact.table("tokens.parquet")
        if tokens is not None:
            share, _ = weighted_coverage(tokens, artifact.folder)
            method = (artifact.manifest().get("config") or {}).get("method")
            return {"method": method, "size": tokens.num_rows, "coverage": share, "origins": origins(tokens)}
    return None


def _phases(artifacts: Sequence[Artifact]) -> list[Row]:
    curves = {row["node"]: row for row in losses(artifacts)}
    phases = []
    for artifact in of_stage(artifacts, "training"):
        manifest, curve = artifact.manifest(), curves.get(artifact.node, {})
        summary, config = manifest.get("summary") or {}, manifest.get("config") or {}
        phases.append(
            {
                "label": artifact.label,
                "key": manifest.get("key"),
                "parameters_trained": summary.get("parameters_trained"),
                "parameters": summary.get("parameters"),
                "trainable": config.get("trainable"),
                "learning_rate": config.get("learning_rate"),
                "config": _read(config),
                **{name: curve.get(name) for name in CURVE},
            }
        )
    return phases


def _read(config: Row) -> Row:
    """The values of a phase without those of ways to train that it does not take."""
    taken = (None, config.get("trainable"), config.get("objective"))
    return {name: value for name, value in config.items() if READ_BY.get(name) in taken}
