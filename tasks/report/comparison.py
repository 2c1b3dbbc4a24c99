"""Initialisers beside each other: what each one's model is worth before any training."""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from markupsafe import Markup

from configs.schema import ComparisonConfig
from tasks.report.artifacts import Artifact
from tasks.report.data import Row, as_dict
from tasks.report.display import count, number, percent
from tasks.report.mapping import given, weighted_coverage
from tasks.report.markdown import escape, markdown_table, stage_lines
from tasks.report.render import environment
from tasks.report.svg import Bar, row_chart
from tasks.report.tables import stage_table
from tasks.report.verification import verification, warnings

KIND = "comparison"
SOURCE = "source"
METRICS = ("bits_per_byte", "bits_per_character", "perplexity_per_native_token")
SCHEMA = pa.schema(
    [
        ("initialiser", pa.string()),
        *((name, pa.float64()) for name in METRICS),
        ("coverage", pa.float64()),
        ("rows", pa.int64()),
        ("uncovered_rows", pa.int64()),
        ("warnings", pa.int64()),
        ("skipped", pa.string()),
    ]
)


def rows_of(config: ComparisonConfig, inputs: Mapping[str, Path]) -> list[Row]:
    """One row an initialiser, fewest bits per byte first, then those that could not run, with the reason.

    Args:
        config: which initialisers there are, in the order asked for.
        inputs: folders of the evaluations ('evaluation.<initialiser>'), mappings ('mapping.<initialiser>') and initial
            models ('model.<initialiser>').
    """
    found = []
    for name in config.initialisers:
        row: Row = dict.fromkeys(SCHEMA.names) | {"initialiser": name, **_metrics(inputs, name)}
        if f"mapping.{name}" in inputs:
            row |= _mapping(inputs[f"mapping.{name}"])
        if f"model.{name}" in inputs:
            row["warnings"] = len(_warnings(inputs, name))
        found.append(row)
    found.sort(key=lambda row: float("inf") if row["bits_per_byte"] is None else row["bits_per_byte"])
    skipped = [
        dict.fromkeys(SCHEMA.names) | {"initialiser": item.initialiser, "skipped": item.reason}
        for item in config.skipped
    ]
    return found + skipped


def _metrics(inputs: Mapping[str, Path], name: str) -> Row:
    folder = inputs.get(f"evaluation.{name}")
    if folder is None:
        return {}
    values = {row["metric"]: row["value"] for row in pq.read_table(folder / "metrics.parquet").to_pylist()}
    return {metric: values.get(metric) for metric in METRICS}


def _mapping(folder: Path) -> Row:
    tokens = pq.read_table(folder / "tokens.parquet")
    drawn = int((~given(tokens, folder)).sum())
    return {"coverage": weighted_coverage(tokens, folder)[0], "rows": tokens.num_rows, "uncovered_rows": drawn}


def _warnings(inputs: Mapping[str, Path], name: str) -> list[Row]:
    """What the verification of the initialiser's model warns of: initialiser, check, message."""
    folder = inputs.get(f"model.{name}")
    found = warnings(verification([Artifact(f"initial-model.{name}", "initial-model", name, folder)]))
    return [{"initialiser": name, "check": check["name"], "message": check["message"]} for check in found]


def collect(config: ComparisonConfig, inputs: Mapping[str, Path], similarity: Sequence[Row]) -> Row:
    """The figures of the page, as JSON types.

    Args:
        config: what is compared.
        inputs: folders (see `rows_of`), 'evaluation.source' too where the source model was measured.
        similarity: rows of first, second and similarity.
    """
    return as_dict(
        {
            "kind": KIND,
            "title": config.title,
            "language": config.language,
            "language_name": config.language_name,
            "model": config.model,
            "recipe": config.recipe,
            "source": _metrics(inputs, SOURCE),
            "results": rows_of(config, inputs),
            "warnings": [warning for name in config.initialisers for warning in _warnings(inputs, name)],
            "similarity": list(similarity),
        }
    )


def comparison_html(data: Row, run_stages: Sequence[Row] | None) -> str:
    """The page; `run_stages` as for `tasks.report.render.render_html`."""
    package = files("tasks.report")
    template = environment().from_string((package / "comparison.html").read_text(encoding="utf-8"))
    return template.render(
        report=data,
        style=Markup((package / "style.css").read_text(encoding="utf-8")),
        chart=chart(data),
        best=min(_values(data), default=None),
        matrix=matrix(data["similarity"]),
        stages=stage_table([], run_stages) if run_stages else [],
    )


def comparison_markdown(data: Row, run_stages: Sequence[Row] | None) -> str:
    """The table of initialisers and the stages, as Markdown."""
    lines = [f"# {escape(data['title'])}"]
    rows = [
        [
            escape(row["initialiser"]),
            number(row["bits_per_byte"]),
            number(row["perplexity_per_native_token"]),
            percent(row["coverage"]),
            count(row["warnings"]),
            escape(row["skipped"] or ""),
        ]
        for row in data["results"]
    ]
    header = ["initialiser", "bits per byte", "perplexity per native token", "coverage", "warnings", "skipped because"]
    lines += markdown_table(header, "lrrrrl", rows)
    if run_stages:
        lines += stage_lines(stage_table([], run_stages), of_a_run=True)
    return "\n".join(lines) + "\n"


def chart(data: Row) -> Markup:
    """Bits per byte of each initialiser, best first, and of the source model with its own tokenizer."""
    values = [(row["initialiser"], row["bits_per_byte"]) for row in data["results"] if row["bits_per_byte"] is not None]
    source = data["source"].get("bits_per_byte")
    values += [] if source is None else [("source model", source)]
    bars = [Bar(name, value, f"{name}: {number(value)} bits/byte", number(value)) for name, value in values]
    return row_chart(bars, "Bits per byte before training, by initialiser")


def matrix(similarity: Sequence[Row]) -> dict[str, Any]:
    """names, and rows [{name, cells}]: the similarity of each two initialisers, None on the diagonal."""
    names = list(dict.fromkeys(name for row in similarity for name in (row["first"], row["second"])))
    values = {frozenset((row["first"], row["second"])): row["similarity"] for row in similarity}
    rows = [{"name": a, "cells": [values.get(frozenset((a, b))) for b in names]} for a in names]
    return {"names": names, "rows": rows}


def _values(data: Row) -> list[float]:
    return [row["bits_per_byte"] for row in data["results"] if row["bits_per_byte"] is not None]
