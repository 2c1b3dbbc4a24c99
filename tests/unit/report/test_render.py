import json
import re
from html.parser import HTMLParser

import pytest

from tasks.contract import StageContext, load_stage
from tasks.report.collect import collect
from tasks.report.data import as_dict
from tasks.report.markdown import escape, render_markdown
from tasks.report.render import render_html

VOID = {"meta", "link", "img", "br", "hr", "input"}
LOADING = {"src", "href", "data", "poster", "action", "srcset", "background"}
RUN = [
    {"node": "corpus", "stage": "corpus", "label": "corpus eo", "status": "Cached", "seconds": 0.01},
    {"node": "mapping", "stage": "mapping", "label": "mapping en-eo", "status": "Rebuilt", "seconds": 3.0},
    {"node": "report", "stage": "report", "label": "report eo", "status": "Completed", "seconds": 0.5,
     "key": "f" * 64, "bytes": 12345, "built_in_seconds": 0.5},
]  # fmt: skip


class Page(HTMLParser):
    """Checks that tags are closed in order, and keeps tables, text and what could be loaded."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.loads, self.rows, self.ids = [], [], [], [], set()
        self.cell = None
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        values = dict(attributes)
        assert len(values) == len(attributes)
        assert not [name for name in values if name.startswith("on")]
        self.loads += [values[name] for name in LOADING & set(values)]
        self.ids |= {values["id"]} if "id" in values else set()
        if tag not in VOID and not self.get_starttag_text().endswith("/>"):
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.cell = ""

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        if tag in ("td", "th"):
            self.rows[-1].append(" ".join(self.cell.split()))
            self.cell = None

    def handle_data(self, data):
        if self.cell is not None:
            self.cell += data


@pytest.fixture
def data(report_config, artifacts):
    return collect(report_config, artifacts)


def test_page_parses_and_loads_nothing(data):
    text = render_html(data, RUN)
    page = Page(text)
    assert all(target.startswith("#") and target[1:] in page.ids for target in page.loads)
    assert not {"script", "link", "iframe", "img", "object", "embed"} & set(page.tags)
    assert not re.search(r"https?://|url\(|@import", text)
    assert "default-src 'none'" in text


def test_what_comes_from_data_is_escaped(data):
    text = render_html(data, None)
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "&lt;b&gt;Ha!&lt;/b&gt;" in text
    assert "a paper &lt;2024&gt;" in text
    assert "\u202e" not in text
    assert not re.search(r"[\x00-\x08\x0b-\x1f]", text)
    assert "a⟨U+202E⟩b" in text
    assert "⟨U+0007⟩" in text


def test_results_shown_equal_the_table(data):
    page = Page(render_html(data, None))
    row = next(row for row in page.rows if row and row[0].startswith("bits per byte"))
    assert row[1:] == ["4.830", "2.510", "1.970", "1.812"]
    row = next(row for row in page.rows if row and row[0].startswith("perplexity per native token"))
    assert row[1] == f"{2 ** (4.83 * 4):,.0f}"


def test_best_value_is_marked_once_and_only_where_comparable(data):
    text = render_html(data, None)
    lines = {
        re.split(r" <", line)[0].split(">")[-1]: line for line in text.splitlines() if '<tr><th scope="row">' in line
    }
    assert lines["bits per byte"].count("best") == 1
    assert 'n best">1.812' in lines["bits per byte"]
    assert "best" not in lines["perplexity per token"]
    assert "best" not in lines["generation tokens per second"]  # all equal


def test_statuses_of_a_run(data):
    page = Page(render_html(data, RUN))
    header = next(row for row in page.rows if row[0] == "Stage")
    assert "This run" in header
    stages = {row[0]: row for row in page.rows}
    assert stages["corpus eo"][1:3] == ["Cached", "0.01 s"]
    assert stages["mapping en-eo"][1] == "Rebuilt"
    assert stages["report eo"][1:] == ["Completed", "0.50 s", "0.50 s", "12.1 KiB", "–", "f" * 12]
    assert stages["align en-eo"][1] == "–"
    assert "This run" not in render_html(data, None)


def test_page_from_json_is_the_same(data):
    again = json.loads(json.dumps(as_dict(data)))
    assert render_html(again, RUN) == render_html(data, RUN)


@pytest.mark.parametrize("gone", ["evaluation.source", "alignment", "mapping", "tokenizer", "corpus", "training.1"])
def test_any_node_may_be_missing(report_config, artifacts, gone):
    data = collect(report_config, {node: folder for node, folder in artifacts.items() if node != gone})
    Page(render_html(data, RUN))
    assert render_markdown(data, RUN)


def test_empty_report(report_config):
    page = Page(render_html(collect(report_config, {}), None))
    assert {"stages", "provenance"} <= page.ids
    assert "results" not in page.ids


def test_markdown_has_results_and_stages(data):
    text = render_markdown(data, RUN)
    assert "| bits per byte | 4.830 | 2.510 | 1.970 | **1.812** |" in text
    assert re.search(r"\| corpus eo \| Cached \| 0\.01 s \|", text)
    assert re.search(r"\| report eo \| Completed \|", text)
    assert "Cached" not in render_markdown(data, None)
    widths = {line.count("|") for line in text.split("## Stages")[1].splitlines() if line.startswith("|")}
    assert len(widths) == 1


def test_markdown_escapes():
    assert escape("a|b <c> *d*\ne") == r"a\|b \<c\> \*d\* e"


def test_stage_writes_both_files(report_config, artifacts, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    result = load_stage("report").run(StageContext(report_config, artifacts, out, tmp_path / "work"))
    assert sorted(path.name for path in out.iterdir()) == ["report.html", "report.json"]
    stored = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert (out / "report.html").read_text(encoding="utf-8") == render_html(stored, None)
    assert result.summary["bits_per_byte_source"] == 4.83


def test_memory_is_shown_where_it_was_measured(data, report_config, bare_artifacts):
    rows = Page(render_html(data, None)).rows
    assert [row for row in rows if row[0] == "train eo 1 embeddings" and "300 MiB" in row]
    assert "Peak memory" not in render_html(collect(report_config, bare_artifacts), None)


class Lines(HTMLParser):
    """The lines of each chart, by the chart's name."""

    def __init__(self, text):
        super().__init__()
        self.charts = {}
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if tag == "svg":
            self.name = values["aria-label"]
            self.charts[self.name] = []
        if tag == "polyline":
            self.charts[self.name].append([float(pair.split(",")[0]) for pair in values["points"].split()])


def test_curves_of_all_phases_one_after_another(report_config, artifacts, measurements):
    charts = Lines(render_html(collect(report_config, artifacts, measurements), None)).charts
    for name in ("training loss (nats/token)", "learning rate", "gradient norm before clipping"):
        first, second = charts[f"Adaptation: {name}"]
        assert max(first) <= min(second)
        assert len(charts[f"Pretraining of the source model: {name}"]) == 1
    for name in ("tokens a second", "peak memory (GiB)"):
        first, second = charts[f"Adaptation: {name}"]
        assert max(first) < min(second)
        assert f"Pretraining of the source model: {name}" not in charts  # nothing was measured
    assert len(charts["Adaptation: bits per byte, validation text"]) == 1


def test_the_texts_of_a_mixture_are_in_a_table(data):
    page = render_html(data, None)
    assert "Texts of mixtures" in page
    assert '<td>target</td><td class="n">75.0 %</td><td class="n">75.0 %</td><td class="n">150,060</td>' in page


def test_what_was_measured_is_in_the_table(report_config, artifacts, measurements):
    page = Page(render_html(collect(report_config, artifacts, measurements), None))
    row = next(row for row in page.rows if row[0] == "train eo 2 outer-layers" and len(row) == 10)
    assert row[6:] == ["1.750", "100", "1,200", "300 MiB"]
