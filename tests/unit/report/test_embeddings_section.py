"""Coverage weighted by frequency, neighbours and the picture of the embeddings."""

import numpy as np
import pyarrow as pa
import pytest

from tasks.report.charts import embeddings_chart
from tasks.report.collect import collect
from tasks.report.coverage import bands
from tasks.report.mapping import evidence
from tasks.report.render import render_html
from tasks.report.svg import Cloud, scatter_chart


def test_coverage_of_the_most_frequent_tokens_by_hand(monkeypatch):
    monkeypatch.setattr("tasks.report.coverage.BANDS", (1, 2, 50))
    tokens = pa.table(
        {
            "origin": ["aligned", "fallback-parts", "identical", "aligned", "special"],
            "frequency": [30, 10, 40, 20, 0],
            "sources": [2, 1, 1, 0, 1],
        }
    )
    found = bands(tokens, evidence(tokens))
    assert [row["tokens"] for row in found] == [1, 2, 4]
    assert [row["text_share"] for row in found] == [0.4, 0.7, 1.0]
    assert found[1]["covered"] == 1.0
    assert found[2]["covered"] == pytest.approx(0.7)  # neither the fallback nor the aligned row without sources
    shares = {item["origin"]: item["share"] for item in found[2]["origins"]}
    assert shares == pytest.approx({"aligned": 0.5, "identical": 0.4, "fallback-parts": 0.1, "special": 0.0})
    assert found[0]["origins"][0] == {"origin": "aligned", "share": 0.0}


def test_random_rows_are_no_evidence():
    """VocADT's random combinations of all source tokens have sources, or are given as numbers."""
    origins = ["decomposed", "random-combination", "random", "fallback-parts"]
    tokens = pa.table({"origin": origins, "frequency": [1, 1, 1, 1], "sources": [2, 300, 0, 1]})
    assert evidence(tokens).tolist() == [True, False, False, False]


def test_without_frequencies_there_is_no_weighted_coverage():
    tokens = pa.table({"origin": ["aligned"], "frequency": [0], "sources": [1]})
    assert bands(tokens, np.array([True])) == []


def test_the_report_has_the_section(report_config, artifacts):
    data = collect(report_config, artifacts)
    assert [row["token"] for row in data.embeddings["neighbours"]] == ["▁nova0", "▁nova1", "▁nova2"]
    assert [source["cosine"] for source in data.embeddings["neighbours"][0]["sources"]] == [0.8, 0.7]
    page = render_html(data, None)
    for text in ('id="embeddings"', "▁nova0", "Coverage weighted by frequency", "new: other origins"):
        assert text in page
    assert page.count("<circle") == 40
    assert "<script>" not in page


def test_a_run_without_the_stage_has_no_section(report_config, artifacts):
    del artifacts["embeddings"]
    assert 'id="embeddings"' not in render_html(collect(report_config, artifacts), None)


def test_points_are_named_and_escaped():
    chart = scatter_chart(
        [Cloud("<a>", [(0.0, 1.0, "<t>"), (1.0, 1.0, "u")]), Cloud("b", [(2.0, 0.0, "v")])], "x", "y", "t"
    )
    assert "<title>&lt;t&gt;</title>" in chart
    assert "&lt;a&gt;" in chart
    assert scatter_chart([], "x", "y", "t") == ""
    assert scatter_chart([Cloud("a", [(0.0, 0.0, "one")])], "x", "y", "t").count("<circle") == 1


def test_a_few_origins_keep_their_names():
    points = [
        {"side": "target", "origin": f"o{n}", "token": "t", "frequency": n, "x": 0.1 * n, "y": 0.0} for n in range(5)
    ]
    chart = embeddings_chart({"points": points, "variance": [0.5, 0.25]})
    assert "other origins" not in chart
    assert "new: o0" in chart
    assert "50.0 % of the variance" in chart
