"""The two tokenizers side by side: their figures, and sentences cut by both."""

from collections.abc import Sequence
from itertools import chain

import pyarrow.parquet as pq

from tasks.report.artifacts import Artifact, of_stage
from tasks.report.data import Row
from tasks.report.segmenter import Segmenter

SENTENCES = 5
MIN_CHARACTERS = 20
MAX_CHARACTERS = 160
SEARCHED = 500


def fertility(artifacts: Sequence[Artifact]) -> list[Row]:
    """The rows of fertility.parquet, the source tokenizer first."""
    rows = list(
        chain.from_iterable(artifact.rows("fertility.parquet") for artifact in of_stage(artifacts, "fertility"))
    )
    return sorted(rows, key=lambda row: row["tokenizer"] != "source")


def segmentation(artifacts: Sequence[Artifact], source: Segmenter | None, target: Segmenter | None) -> list[Row]:
    """Held-out sentences with their tokens under both tokenizers; none where there is no tokenizer or no text."""
    if source is None and target is None:
        return []
    return [
        {
            "text": text,
            "source": None if source is None else source.segment(text),
            "target": None if target is None else target.segment(text),
        }
        for text in example_sentences(artifacts)
    ]


def example_sentences(artifacts: Sequence[Artifact]) -> list[str]:
    """A few sentences of the target corpus's validation split (else test, else train), neither short nor long."""
    for artifact in of_stage(artifacts, "corpus"):
        if artifact.node.startswith("source.") or artifact.folder is None:
            continue
        for split in ("validation", "test", "train"):
            path = artifact.folder / f"{split}.parquet"
            texts = _first_texts(path) if path.is_file() else []
            if texts:
                fitting = [text for text in texts if MIN_CHARACTERS <= len(text) <= MAX_CHARACTERS]
                return (fitting or [text[:MAX_CHARACTERS] for text in texts])[:SENTENCES]
    return []


def _first_texts(path: object) -> list[str]:
    with pq.ParquetFile(path) as file:
        batch = next(file.iter_batches(batch_size=SEARCHED, columns=["text"]), None)
    texts: list[str] = [] if batch is None else batch.column("text").to_pylist()
    return texts
