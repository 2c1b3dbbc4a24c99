"""Curves of each training, thinned to what a chart can show."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.report.artifacts import Artifact, of_stage
from tasks.report.data import Row

POINTS = 200
STEPS = ("step", "tokens", "loss", "learning_rate", "gradient_norm")
SCORES = ("step", "tokens", "bits_per_byte")
SPEEDS = ("step", "tokens_per_second", "peak_memory_bytes")

Columns = Mapping[str, npt.NDArray[Any]]


def losses(artifacts: Sequence[Artifact]) -> list[Row]:
    """The curves of each training phase and of the pretraining, in the order of the run.

    Of a mixture, `texts` holds what each text gave (`tasks.training.mixing.TextShare` as dicts).
    """
    return [row for artifact in of_stage(artifacts, "pretraining", "training") if (row := _curves(artifact))]


def _curves(artifact: Artifact) -> Row | None:
    steps = _columns(artifact, "losses.parquet", STEPS)
    if steps is None:
        return None
    scores, speeds = _columns(artifact, "validation.parquet", SCORES), _speeds(artifact, steps)
    points = thinned(steps, ("loss", "gradient_norm"))
    manifest = artifact.manifest()
    return {
        "node": artifact.node,
        "label": artifact.label,
        "detail": str((manifest.get("config") or {}).get("trainable", "")),
        "steps": len(steps["step"]),
        "tokens": int(steps["tokens"].max()),
        "first": points[0]["loss"],
        "last": points[-1]["loss"],
        "best": None if scores is None else _best(scores),
        "tokens_per_second": None if speeds is None else float(np.median(speeds["tokens_per_second"])),
        "peak_memory_bytes": None if speeds is None else int(speeds["peak_memory_bytes"].max()),
        "texts": list(((manifest.get("summary") or {}).get("texts") or {}).values()),
        "points": points,
        "validation": [] if scores is None else thinned(scores, ()),
        "speed": [] if speeds is None else thinned(speeds, ("tokens_per_second",)),
    }


def _columns(artifact: Artifact, name: str, wanted: Sequence[str]) -> Columns | None:
    table = artifact.table(name, wanted)
    if table is None or table.num_rows == 0:
        return None
    return {column: table[column].to_numpy() for column in wanted}


def _speeds(artifact: Artifact, steps: Columns) -> Columns | None:
    """What was measured, with the tokens seen until then; None where nothing was."""
    table = artifact.measurements()
    if table is None or table.num_rows == 0 or not set(SPEEDS) <= set(table.column_names):
        return None
    measured = {column: table[column].to_numpy() for column in SPEEDS}
    seen = np.searchsorted(steps["step"], measured["step"], side="right") - 1
    return measured | {"tokens": steps["tokens"][np.maximum(seen, 0)]}


def _best(scores: Columns) -> Row:
    at = int(np.argmin(scores["bits_per_byte"]))
    return {"step": int(scores["step"][at]), "bits_per_byte": float(scores["bits_per_byte"][at])}


def thinned(columns: Columns, means: Collection[str], points: int = POINTS) -> list[Row]:
    """At most `points` rows, each for a stretch of the columns' rows.

    Args:
        columns: numbers [n] by name, n at least 1.
        means: columns of which a row has the mean over its stretch; of the others it has the last value.
        points: most rows.
    """
    count = len(next(iter(columns.values())))
    starts = np.unique(np.linspace(0, count, num=min(points, count), endpoint=False).astype(np.int64))
    ends = np.append(starts[1:], count)
    shown = {
        name: (np.add.reduceat(values, starts) / (ends - starts) if name in means else values[ends - 1]).tolist()
        for name, values in columns.items()
    }
    return [dict(zip(shown, row, strict=True)) for row in zip(*shown.values(), strict=True)]
