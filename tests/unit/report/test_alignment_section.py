"""The alignment's section: one alignment, or one for each of several source languages."""

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.report.alignment import alignment
from tasks.report.artifacts import Artifact


def node(folder, stage, label, pairs):
    path = folder / label
    path.mkdir()
    name = "token_pairs.parquet" if stage == "counts" else "word_pairs.parquet"
    pq.write_table(pa.table({"count": [1.0] * pairs}), path / name)
    if stage == "alignment":
        pq.write_table(pa.table({"direction": ["forward"], "iteration": [1]}), path / "iterations.parquet")
    return Artifact(label, stage, label, path)


def test_sizes_come_from_wherever_they_are(tmp_path):
    found = alignment([node(tmp_path, "alignment", "align en-tt", 3), node(tmp_path, "counts", "counts en-tt", 2)])
    assert found["sizes"] == [{"name": "unit pairs", "count": 3}, {"name": "token pairs", "count": 2}]
    assert [row["direction"] for row in found["iterations"]] == ["forward"]


def test_several_source_languages_are_told_apart(tmp_path):
    nodes = [node(tmp_path, "alignment", f"align {code}-tt", size) for code, size in (("en", 3), ("ru", 5))]
    nodes += [node(tmp_path, "counts", f"counts {code}-tt", size) for code, size in (("en", 2), ("ru", 4))]
    found = alignment(nodes)
    assert {row["name"]: row["count"] for row in found["sizes"]} == {
        "unit pairs, align en-tt": 3, "unit pairs, align ru-tt": 5,
        "token pairs, counts en-tt": 2, "token pairs, counts ru-tt": 4,
    }  # fmt: skip
    assert [row["direction"] for row in found["iterations"]] == ["forward, align en-tt", "forward, align ru-tt"]


def test_no_alignment(tmp_path):
    assert alignment([Artifact("corpus", "corpus", "corpus tt", tmp_path)]) is None
