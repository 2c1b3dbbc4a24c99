"""Text kept and text rejected."""

from collections import Counter
from collections.abc import Sequence
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tasks.report.artifacts import Artifact, of_stage
from tasks.report.data import Row

SPLITS = ("train", "validation", "test")
TEXT_COLUMNS = ("text", "source", "target")
EXAMPLES = 3


def corpora(artifacts: Sequence[Artifact]) -> list[Row]:
    """What each corpus and bitext kept and rejected."""
    found = [artifact for artifact in of_stage(artifacts, "corpus", "bitext") if artifact.folder is not None]
    return [
        {
            "node": artifact.node,
            "label": artifact.label,
            "stage": artifact.stage,
            "kept": kept(artifact),
            "rejections": rejections(artifact),
        }
        for artifact in found
    ]


def kept(artifact: Artifact) -> list[Row]:
    """Texts and bytes by corpus and split, corpora by name; a corpus without a text in a split has no row."""
    rows = []
    for split in SPLITS:
        path = None if artifact.folder is None else artifact.folder / f"{split}.parquet"
        if path is not None and path.is_file():
            texts, sizes = _sizes(path)
            rows += [
                {"corpus": name, "split": split, "texts": texts[name], "bytes": sizes[name]} for name in sorted(texts)
            ]
    return sorted(rows, key=lambda row: (row["corpus"], SPLITS.index(row["split"])))


def _sizes(path: Path) -> tuple[Counter[str], Counter[str]]:
    """Texts and UTF-8 bytes by corpus; the file is streamed."""
    texts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    with pq.ParquetFile(path) as file:
        names = [name for name in TEXT_COLUMNS if name in file.schema_arrow.names]
        for batch in file.iter_batches(columns=[*names, "corpus"]):
            lengths = reduce(pc.add, (pc.cast(pc.binary_length(batch.column(name)), pa.int64()) for name in names))
            grouped = pa.table({"corpus": batch.column("corpus"), "bytes": lengths}).group_by("corpus")
            for row in grouped.aggregate([("bytes", "sum"), ("bytes", "count")]).to_pylist():
                texts[row["corpus"]] += row["bytes_count"]
                sizes[row["corpus"]] += row["bytes_sum"]
    return texts, sizes


def rejections(artifact: Artifact) -> list[Row]:
    """Rejected texts by corpus and reason, most frequent first, with a few examples each; without empty counts."""
    examples: dict[tuple[str, str], list[Row]] = {}
    for row in artifact.rows("rejection_examples.parquet"):
        shown = examples.setdefault((row["corpus"], row["reason"]), [])
        if len(shown) < EXAMPLES:
            shown.append({"line": row["line"], "example": row["example"]})
    counted = [row for row in artifact.rows("rejections.parquet") if row["count"]]
    counted.sort(key=lambda row: (-row["count"], row["corpus"], row["reason"]))
    return [row | {"examples": examples.get((row["corpus"], row["reason"]), [])} for row in counted]
