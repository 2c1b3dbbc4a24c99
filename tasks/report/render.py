"""The report's figures as one HTML page that needs nothing but itself."""

import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from tasks.report import display
from tasks.report.charts import bits_chart, embeddings_chart, entropy_chart, perplexity_chart, training_charts
from tasks.report.data import ReportData, Row, as_dict
from tasks.report.tables import results_table, stage_table
from tasks.report.verification import QUANTILES, warnings


def render_html(data: ReportData | Row, run_stages: Sequence[Row] | None) -> str:
    """The page.

    Everything that comes from data is escaped; style and charts are inside the page, which forbids itself to load
    anything.

    Args:
        data: the figures, as collected or as read from report.json.
        run_stages: what became of each stage in one run, for that run's own copy: rows of node, status ('Cached',
            'Completed', 'Rebuilt'), seconds and optionally stage, label, key, bytes, built_in_seconds; None leaves the
            column out.
    """
    report = as_dict(data)
    package = files("tasks.report")
    template = environment().from_string((package / "template.html").read_text(encoding="utf-8"))
    mapping, alignment, embeddings = report["mapping"], report["alignment"], report["embeddings"]
    return template.render(
        report=report,
        style=Markup((package / "style.css").read_text(encoding="utf-8")),  # the project's own file
        results=results_table(report["results"]),
        stages=stage_table(report["stages"], run_stages),
        with_memory=any(row["memory_bytes"] is not None for row in report["stages"]),
        of_a_run=run_stages is not None,
        bits=bits_chart(report["results"]),
        training=training_charts(report["losses"]),
        entropy=entropy_chart(mapping) if mapping else "",
        warnings=warnings(report["verification"]),
        quantiles=list(QUANTILES.values()),
        plane=embeddings_chart(embeddings) if embeddings else "",
        perplexity=perplexity_chart(alignment) if alignment else "",
    )


def environment() -> Environment:
    """Jinja with the page's filters; everything is escaped, and a name that is not there is an error."""
    made = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    for name in ("number", "count", "percent", "size", "duration", "visible", "label", "figure"):
        made.filters[name] = getattr(display, name)
    made.filters["pretty"] = _pretty
    made.filters["visible_lines"] = _visible_lines
    made.filters["total"] = _total
    return made


def _pretty(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)


def _visible_lines(text: str) -> str:
    return "\n".join(display.visible(line) for line in text.split("\n"))


def _total(rows: Sequence[Row], name: str) -> float | None:
    """Sum of a column; None where no row has a value."""
    values = [row[name] for row in rows if row[name] is not None]
    return sum(values) if values else None
