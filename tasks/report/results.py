"""The table of results: metrics of the source model, the initial model and each phase."""

from collections.abc import Sequence
from typing import Literal

from tasks.report.artifacts import Artifact, of_stage
from tasks.report.data import Row

Better = Literal["lower", "higher"]

# The metrics of the table, in its order, and which way is better (None: not comparable between the models).
SHOWN: dict[str, Better | None] = {
    "bits_per_byte": "lower",
    "bits_per_character": "lower",
    "perplexity_per_native_token": "lower",
    "perplexity_per_token": None,
    "tokens_per_word": "lower",
    "tokens_per_byte": "lower",
    "generation_bytes_per_second": "higher",
    "generation_tokens_per_second": "higher",
}
SPEED_UNITS = {"generation_bytes_per_second": "bytes/s", "generation_tokens_per_second": "tokens/s"}


def model_names(artifacts: Sequence[Artifact]) -> dict[str, str]:
    """Heading of each evaluated model, by node: 'source', 'initial', and for a phase 'phase 1 (embeddings)'."""
    trained = {artifact.node.rpartition(".")[2]: artifact for artifact in of_stage(artifacts, "training")}
    names = {}
    for artifact in of_stage(artifacts, "evaluation"):
        which = artifact.node.rpartition(".")[2]
        name = f"phase {which}" if which.isdigit() else which
        if which in trained:
            config = trained[which].manifest().get("config") or {}
            detail = config.get("name") or config.get("trainable")
            name += f" ({detail})" if detail else ""
        names[artifact.node] = artifact.model or (name if artifact.node.startswith("evaluation.") else artifact.label)
    return names


def results(artifacts: Sequence[Artifact]) -> tuple[list[Row], list[Row]]:
    """The values of the table, metric by metric, and the totals of what was measured."""
    names = model_names(artifacts)
    rows, totals = [], []
    for artifact in of_stage(artifacts, "evaluation"):
        head = {"node": artifact.node, "model": names[artifact.node]}
        for row in artifact.rows("metrics.parquet") + _speeds(artifact):
            value = head | {"metric": row["metric"], "value": row["value"], "unit": row["unit"]}
            if row["metric"] in SHOWN:
                rows.append(value | {"better": SHOWN[row["metric"]]})
            else:
                totals.append(value | {"split": row["split"], "sentences": row["sentences"]})
    order = list(SHOWN)
    return sorted(rows, key=lambda row: order.index(row["metric"])), totals


def _speeds(artifact: Artifact) -> list[Row]:
    summary = artifact.manifest().get("summary") or {}
    return [
        {"metric": name, "value": summary[name], "unit": unit}
        for name, unit in SPEED_UNITS.items()
        if isinstance(summary.get(name), (int, float))
    ]


HEADLINES = {
    "bits_per_byte": "Bits per byte",
    "tokens_per_word": "Tokens a word",
    "generation_bytes_per_second": "Generation speed",
}


def headline(rows: Sequence[Row]) -> list[Row]:
    """The figures to read first: bits per byte of source, initial and final model; of the others source and final.

    What has no value for the source model (it was not evaluated) begins with the first model that has one.
    """
    found = []
    for metric, label in HEADLINES.items():
        values = [{"name": row["model"], "value": row["value"]} for row in rows if row["metric"] == metric]
        if not values:
            continue
        initial = [value for value in values[1:-1] if value["name"] == "initial" and metric == "bits_per_byte"]
        unit = next(row["unit"] for row in rows if row["metric"] == metric)
        shown = [values[0], *initial, *values[1:][-1:]]
        found.append({"metric": metric, "label": label, "unit": unit, "better": SHOWN[metric], "values": shown})
    return found
