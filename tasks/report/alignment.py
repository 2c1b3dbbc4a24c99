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
    """Iterations and sizes of the alignment; None where the run has none."""
    found = [artifact for artifact in of_stage(artifacts, "alignment", "counts") if artifact.folder is not None]
    if not found:
        return None
    iterations = [row for artifact in found for row in artifact.rows("iterations.parquet")]
    sizes = []
    for name, label in SIZES.items():
        paths = [artifact.folder / name for artifact in found if artifact.folder is not None]
        sizes += [{"name": label, "count": pq.read_metadata(path).num_rows} for path in paths if path.is_file()]
    return {"iterations": iterations, "sizes": sizes}
