"""The page and the tables of a comparison of initialisers."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save_file

from configs.schema import ComparisonConfig, Skipped
from tasks.report.comparison import chart, collect, matrix
from tasks.report.data import dumps
from tasks.report.pages import html, markdown
from tasks.report.svg import Bar, row_chart

CONFIG = ComparisonConfig(
    title="Initialisers <of> Esperanto",
    language="eo",
    language_name="Esperanto",
    model="tiny",
    recipe="trans-tokenization",
    initialisers=("mean", "random"),
    skipped=(Skipped(initialiser="sava", reason="needs a <helper>"),),
)
SIMILARITY = [{"first": "mean", "second": "random", "similarity": 0.25}]
RUN = [{"node": "mapping.mean", "stage": "mapping", "label": "mapping mean", "status": "Cached", "seconds": 0.1}]


@pytest.fixture
def data(tmp_path):
    inputs = {}
    for name, bits in (("mean", 3.5), ("random", 3.0), ("source", 4.0)):
        folder = inputs[f"evaluation.{name}"] = tmp_path / f"evaluation.{name}"
        folder.mkdir()
        pq.write_table(pa.table({"metric": ["bits_per_byte"], "value": [bits]}), folder / "metrics.parquet")
    folder = inputs["mapping.mean"] = tmp_path / "mapping.mean"
    folder.mkdir()
    tokens = pa.table({"origin": ["mean", "fallback-unknown"], "frequency": [1, 3], "sources": [2, 1]})
    pq.write_table(tokens, folder / "tokens.parquet")
    folder = inputs["model.mean"] = tmp_path / "model.mean"
    folder.mkdir()
    checks = [{"name": "round trip", "status": "warning", "message": "3 <texts> change", "figures": {}}]
    (folder / "verification.json").write_text(json.dumps({"checks": checks}))
    return json.loads(dumps(collect(CONFIG, inputs, SIMILARITY)))


def test_rows_are_best_first_and_those_left_out_last(data):
    columns = ("initialiser", "bits_per_byte", "coverage", "warnings", "skipped")
    assert [tuple(row[name] for name in columns) for row in data["results"]] == [
        ("random", 3.0, None, None, None), ("mean", 3.5, 0.25, 1, None), ("sava", None, None, None, "needs a <helper>"),
    ]  # fmt: skip


def test_rows_given_as_numbers_are_not_uncovered(tmp_path):
    tokens = pa.table({"origin": ["special", "mapped", "random"], "frequency": [1, 2, 1], "sources": [1, 0, 0]})
    pq.write_table(tokens, tmp_path / "tokens.parquet")
    save_file({"rows": np.array([1]), "input": np.ones((1, 4), np.float32)}, tmp_path / "dense.safetensors")
    config = CONFIG.model_copy(update={"initialisers": ("sava",), "skipped": ()})
    row = collect(config, {"mapping.sava": tmp_path}, [])["results"][0]
    assert (row["rows"], row["uncovered_rows"], row["coverage"]) == (3, 1, 0.75)


def test_the_page_shows_them_and_escapes(data):
    page = html(data, RUN)
    for text in (
        "3.000",
        "25.0 %",
        "needs a &lt;helper&gt;",
        "&lt;of&gt;",
        "<svg",
        "0.25",
        "Cached",
        "source model",
        "3 &lt;texts&gt; change",
    ):
        assert text in page
    assert "<helper>" not in page
    assert "Stages" not in html(data, None)


def test_the_markdown_has_the_table(data):
    text = markdown(data, RUN)
    assert "| random | 3.000 |" in text
    assert "mapping mean" in text


def test_the_chart_names_every_model_and_the_matrix_is_symmetric(data):
    drawing = chart(data)
    assert drawing.count("<rect") == 3
    assert all(f">{name}<" in drawing for name in ("random", "mean", "source model"))
    assert matrix(SIMILARITY)["rows"] == [
        {"name": "mean", "cells": [None, 0.25]}, {"name": "random", "cells": [0.25, None]},
    ]  # fmt: skip


def test_row_charts():
    assert row_chart([], "t") == ""
    drawing = row_chart([Bar("<a>", 2.0, "<t>", "<v>"), Bar("b", 1.0)], "t")
    assert "&lt;a&gt;" in drawing
    assert "<a>" not in drawing
    assert 'width="500.0"' in drawing
    assert 'width="250.0"' in drawing
