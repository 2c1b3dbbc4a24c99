"""How the word alignment converged, and how much it counted."""

from collections.abc import Sequence

import pyarrow.parquet as pq

from tasks.report.artifacts import Artifact, of_stage
from tasks.report.data import Row

SIZES = {
    "source_units.parquet": "source units",
    "target_units.parquet": "target units",
    "word_pairs.parquet": "unit pairs",
    "links.parquet": "aligned pairs of sentences",
    "token_pairs.parquet": "token pairs",
}


def alignment(artifacts: Sequence[Artifact]) -> Row | None:
    """Iterations and sizes of the alignment; None where the run has none.

    Where several source languages are aligned, the node's label follows each direction and size.
    """
    found = [artifact for artifact in of_stage(artifacts, "alignment", "counts") if artifact.folder is not None]
    if not found:
        return None
    several = sum(artifact.stage == "alignment" for artifact in found) > 1
    iterations: list[Row] = []
    sizes: list[Row] = []
    for artifact in found:
        which = f", {artifact.label}" if several else ""
        rows = artifact.rows("iterations.parquet")
        iterations += [{**row, "direction": f"{row['direction']}{which}"} for row in rows]
        for name, label in SIZES.items():
            if artifact.folder is not None and (artifact.folder / name).is_file():
                count = pq.read_metadata(artifact.folder / name).num_rows
                sizes.append({"name": f"{label}{which}", "count": count})
    return {"iterations": iterations, "sizes": sizes}
