"""A run's model as the files of an ordinary Hugging Face folder, straight from the store."""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from configs.faults import ConfigError
from configs.schema import ReportNode, RunConfig, valid_code
from flows.inputs import HUB_TOKENIZER_FILES, MODEL_FILES
from flows.inspection import run_record
from flows.model_card import card_config
from storage.store import ArtifactRef, Store

CARD = "README.md"
CARD_NODE = "card"
PUBLISHED = (*MODEL_FILES, *HUB_TOKENIZER_FILES)


@dataclass(frozen=True)
class ModelFile:
    """A file of the model in the store.

    Attributes:
        path: where it is.
        size: bytes.
        sha256: of its bytes, in hexadecimal.
    """

    path: Path
    size: int
    sha256: str


@dataclass(frozen=True)
class ExportedModel:
    """A model with its tokenizer and its card.

    Attributes:
        run_id: the run that it is of.
        node: the node that made it.
        key: key of its artifact.
        files: files of model and tokenizer, by their names in the folder ('/' between parts).
        card: text of README.md.
    """

    run_id: str
    node: str
    key: str
    files: Mapping[str, ModelFile]
    card: str

    @property
    def bytes(self) -> int:
        """Size of all files."""
        return sum(file.size for file in self.files.values()) + len(self.card.encode())


def is_published(name: str) -> bool:
    """Whether a file of a model's artifact is published: weights and tokenizer are, losses and checks are not."""
    depth = name.count("/")  # '*' would match a '/'
    return any(fnmatch(name, pattern) for pattern in PUBLISHED if pattern.count("/") == depth)


def find_model(store: Store, what: str, phase: int | None = None) -> ExportedModel:
    """The model of a run.

    Args:
        store: the store.
        what: the first letters of the run's id, or a language, of which the newest complete run is taken.
        phase: number of the training phase whose model it is, 0 for the initial model; None: the run's last one.

    Raises:
        ConfigError: no run or several fit, or the run has no such model.
        DamagedArtifact: the model is gone from the store or damaged.
    """
    record = _find_run(store, what)
    run = _configuration(record)
    phases = len(run.training.resolved())
    number = phases if phase is None else phase
    if not 0 <= number <= phases:
        raise ConfigError(f"run {record['run_id']} has the phases 1 to {phases} (0: its initial model), not {number}")
    node = f"training.{number}" if number else "initial-model"
    artifact = _artifact(store, record, node)
    manifest = store.manifest(artifact)
    folder = store.open(artifact)
    return ExportedModel(
        run_id=record["run_id"],
        node=node,
        key=manifest.key,
        files={
            entry.path: ModelFile(folder / entry.path, entry.size, entry.sha256)
            for entry in manifest.files
            if is_published(entry.path)
        },
        card=_card(store, run, record, number),
    )


def _find_run(store: Store, what: str) -> dict[str, Any]:
    """The record of the run whose id starts with `what`, or of the newest complete run of that language."""
    if valid_code(what):
        records = (run_record(store, run_id) for run_id in sorted(store.runs(), reverse=True))
        complete = (record for record in records if record.get("language") == what and CARD_NODE in _stages(record))
        record = next(complete, None)
        if record is None:
            raise ConfigError(f"no complete run of language {what!r} in {store.url}; see 'langadapt status'")
        return record
    found = [run_id for run_id in store.runs() if what and run_id.startswith(what)]
    if len(found) != 1:
        fits = "nothing" if not found else f"{len(found)} runs: {', '.join(found[:5])}"
        raise ConfigError(f"{what!r} fits {fits}; see 'langadapt status', or give a language")
    return run_record(store, found[0])


def _stages(record: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The rows of a run's stages, by node id; none in the record of a comparison, which is no run of one model."""
    rows = {row["node"]: row for row in record["stages"]}
    return {} if any(row["stage"] == "comparison" for row in rows.values()) else rows


def _configuration(record: Mapping[str, Any]) -> RunConfig:
    try:
        return RunConfig.model_validate(record.get("config"))
    except ValidationError as error:
        raise ConfigError(
            f"run {record['run_id']} was made by another version, whose configuration this one cannot read: run it "
            "again; what has not changed is taken from the store"
        ) from error


def _artifact(store: Store, record: Mapping[str, Any], node: str) -> ArtifactRef:
    """The model that the node of the run has made."""
    row = _stages(record).get(node)
    if row is None:
        raise ConfigError(
            f"run {record['run_id']} ({record['status']}) has no model of {node!r}: it ended before; run it to its "
            "end, or take the model of an earlier phase with --phase"
        )
    found = store.lookup(row["stage"], row["key"])
    if found.artifact is None:
        raise ConfigError(f"{node} of run {record['run_id']}: {found.problem or 'it is gone'}; run it again")
    return found.artifact


def _card(store: Store, run: RunConfig, record: Mapping[str, Any], phase: int) -> str:
    """The card that the run made of its last model; of another model, or where the run ended before, made here."""
    if phase == len(run.training.resolved()) and CARD_NODE in _stages(record):
        return (store.open(_artifact(store, record, CARD_NODE)) / CARD).read_text(encoding="utf-8")
    from tasks.card.facts import collect  # pyarrow, jinja2
    from tasks.card.render import card_text

    rows = record["stages"]
    nodes = [ReportNode(node=row["node"], stage=row["stage"], label=row["label"]) for row in rows]
    config = card_config(run, nodes, phase)
    keys = {row["node"]: (row["stage"], row["key"]) for row in rows}
    found = {node.node: store.lookup(*keys[node.node]).artifact for node in config.nodes}
    folders = {node: store.open(artifact) for node, artifact in found.items() if artifact is not None}
    return card_text(collect(config, folders))
