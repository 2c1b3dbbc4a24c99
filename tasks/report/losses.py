"""Loss curves, thinned to what a chart can show."""

from collections.abc import Sequence

import numpy as np

from tasks.report.artifacts import Artifact, of_stage
from tasks.report.data import Row

POINTS = 200


def losses(artifacts: Sequence[Artifact]) -> list[Row]:
    """The loss curve of each training phase and of the pretraining, in the order of the run."""
    return [row for artifact in of_stage(artifacts, "pretraining", "training") if (row := _curve(artifact))]


def _curve(artifact: Artifact) -> Row | None:
    table = artifact.table("losses.parquet", ["step", "tokens", "loss", "learning_rate"])
    if table is None or table.num_rows == 0:
        return None
    config = artifact.manifest().get("config") or {}
    points = thinned(*(table[name].to_numpy() for name in ("step", "loss", "learning_rate")))
    return {
        "node": artifact.node,
        "label": artifact.label,
        "detail": str(config.get("trainable", "")),
        "steps": table.num_rows,
        "tokens": int(table["tokens"].to_numpy().max()),
        "first": points[0]["loss"],
        "last": points[-1]["loss"],
        "points": points,
    }


def thinned(
    steps: "np.ndarray[tuple[int, ...], np.dtype[np.int64]]",
    loss: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]",
    learning_rate: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]",
    points: int = POINTS,
) -> list[Row]:
    """At most `points` points: each is the mean loss of a stretch of steps, with the stretch's last step and rate.

    Args:
        steps: int64 [n], ascending, n at least 1.
        loss: float64 [n].
        learning_rate: float64 [n].
        points: most points.
    """
    starts = np.unique(np.linspace(0, len(steps), num=min(points, len(steps)), endpoint=False).astype(np.int64))
    ends = np.append(starts[1:], len(steps))
    means = np.add.reduceat(loss, starts) / (ends - starts)
    return [
        {"step": int(steps[end - 1]), "loss": float(mean), "learning_rate": float(learning_rate[end - 1])}
        for end, mean in zip(ends, means, strict=True)
    ]
