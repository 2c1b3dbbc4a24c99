"""The new embeddings beside the old ones: similarity, nearest neighbours, and the points of the picture."""

from collections.abc import Sequence

from tasks.report.artifacts import Artifact, of_stage
from tasks.report.data import Row

EXAMPLES = 40


def embeddings(artifacts: Sequence[Artifact]) -> Row | None:
    """Figures of the stage `embeddings`; None where the run has none."""
    for artifact in of_stage(artifacts, "embeddings"):
        if artifact.table("projection.parquet") is not None:
            return {
                "similarity": artifact.rows("similarity.parquet"),
                "neighbours": neighbours(artifact.rows("neighbours.parquet")),
                "points": artifact.rows("projection.parquet"),
                "variance": (artifact.manifest().get("summary") or {}).get("projection_variance"),
            }
    return None


def neighbours(rows: Sequence[Row]) -> list[Row]:
    """Of the most frequent new tokens: token, origin, frequency and sources [{token, cosine}], by input embeddings."""
    found: dict[int, Row] = {}
    for row in rows:
        if row["table"] != "input" or (len(found) == EXAMPLES and row["target_id"] not in found):
            continue
        head = {name: row[name] for name in ("token", "origin", "frequency")}
        kept = found.setdefault(row["target_id"], head | {"sources": []})
        kept["sources"].append({"token": row["source_token"], "cosine": row["cosine"]})
    return list(found.values())
