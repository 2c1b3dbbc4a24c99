"""A report's figures as a page, whatever kind of report it is."""

from collections.abc import Sequence

from tasks.report.comparison import KIND, comparison_html, comparison_markdown
from tasks.report.data import Row
from tasks.report.markdown import render_markdown
from tasks.report.render import render_html


def html(data: Row, run_stages: Sequence[Row] | None) -> str:
    """The HTML page of a report.json that was read with `json.loads`."""
    return comparison_html(data, run_stages) if data.get("kind") == KIND else render_html(data, run_stages)


def markdown(data: Row, run_stages: Sequence[Row] | None) -> str:
    """The Markdown page of a report.json that was read with `json.loads`."""
    return comparison_markdown(data, run_stages) if data.get("kind") == KIND else render_markdown(data, run_stages)
