"""The report in short, as Markdown: the table of results, warnings, and the table of stages."""

import re
from collections.abc import Sequence

from tasks.report.data import ReportData, Row, as_dict
from tasks.report.display import duration, label, number, size, visible
from tasks.report.tables import results_table, stage_table
from tasks.report.verification import warnings

SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~&])")


def render_markdown(data: ReportData | Row, run_stages: Sequence[Row] | None) -> str:
    """Results, warnings of the initial model's verification, and stages, as Markdown.

    Args:
        data: the figures, as collected or as read from report.json.
        run_stages: as for `render_html`.
    """
    report = as_dict(data)
    parts = [f"# {escape(report['title'])}", *_results(report["results"]), *_warnings(report["verification"])]
    parts += stage_lines(stage_table(report["stages"], run_stages), run_stages is not None)
    return "\n".join(parts) + "\n"


def escape(text: object) -> str:
    """`text` on one line, with no character that Markdown would read as markup."""
    return SPECIAL.sub(r"\\\1", " ".join(visible(str(text).replace("\n", " ")).split()))


def markdown_table(header: Sequence[str], align: str, rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table; `align` has a letter a column, 'l' or 'r'."""
    lines = [header, ["---:" if side == "r" else ":---" for side in align], *rows]
    return ["", *("| " + " | ".join(line) + " |" for line in lines)]


def _results(results: Sequence[Row]) -> list[str]:
    if not results:
        return ["", "No model was evaluated."]
    table = results_table(results)
    rows = []
    for row in table["rows"]:
        cells = [number(cell["value"]) for cell in row["cells"]]
        cells = [f"**{text}**" if cell["best"] else text for text, cell in zip(cells, row["cells"], strict=True)]
        rows.append([escape(label(row["metric"])), *cells])
    header = ["metric", *(escape(model) for model in table["models"])]
    return ["", "## Results", *markdown_table(header, "l" + "r" * len(table["models"]), rows)]


def _warnings(verified: Row | None) -> list[str]:
    found = warnings(verified)
    if not found:
        return []
    lines = [f"- {escape(check['name'])}: {escape(check['message'])}" for check in found]
    return ["", "## Warnings of the initial model's verification", "", *lines]


def stage_lines(stages: Sequence[Row], of_a_run: bool) -> list[str]:
    """Lines of the table of stages (see `tasks.report.tables.stage_table`)."""
    header = ["stage", *(["this run", "took"] if of_a_run else []), "built in", "size", "key"]
    rows = []
    for stage in stages:
        run = [escape(stage["status"] or "–"), duration(stage["this_run_seconds"])] if of_a_run else []
        key = escape((stage["key"] or "–")[:12])
        rows.append([escape(stage["label"]), *run, duration(stage["seconds"]), size(stage["bytes"]), key])
    return ["", "## Stages", *markdown_table(header, "l" + ("lr" if of_a_run else "") + "rrl", rows)]
