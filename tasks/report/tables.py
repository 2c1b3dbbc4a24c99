"""The figures arranged as the tables of the pages (shared by the HTML and the Markdown one)."""

from collections.abc import Sequence

from tasks.report.data import Row


def results_table(results: Sequence[Row]) -> Row:
    """Metrics by models.

    Args:
        results: rows with model, metric, value, unit and better.

    Returns:
        models (names, in order) and rows [{metric, unit, better, cells [{value, best}]}]; the best of a row is marked
        where there is something to compare and a better way.
    """
    models = list(dict.fromkeys(row["model"] for row in results))
    rows = []
    for metric in dict.fromkeys(row["metric"] for row in results):
        of_metric = {row["model"]: row for row in results if row["metric"] == metric}
        first = next(iter(of_metric.values()))
        values = [of_metric[model]["value"] if model in of_metric else None for model in models]
        best = _best(values, first["better"])
        cells = [{"value": value, "best": value is not None and value == best} for value in values]
        rows.append({"metric": metric, "unit": first["unit"], "better": first["better"], "cells": cells})
    return {"models": models, "rows": rows}


def _best(values: Sequence[float | None], better: str | None) -> float | None:
    known = [value for value in values if value is not None]
    if better is None or len(set(known)) < 2:
        return None
    return min(known) if better == "lower" else max(known)


def stage_table(stages: Sequence[Row], run_stages: Sequence[Row] | None) -> list[Row]:
    """The stages of a run: those of the report, then those that only the run knows (the report itself).

    Args:
        stages: rows of the report: node, stage, label, key, seconds, bytes, memory_bytes.
        run_stages: the run's own: node, status, seconds, and what else it knows (stage, label, key, bytes,
            built_in_seconds); None: the report stands for itself.

    Returns:
        node, stage, label, status and this_run_seconds (None without `run_stages`), key, seconds (of building), bytes,
        memory_bytes.
    """
    own = {row["node"]: row for row in run_stages or []}
    known = {row["node"] for row in stages}
    added = [row for node, row in own.items() if node not in known]
    rows = []
    for stage in [*stages, *added]:
        run = own.get(stage["node"], {})
        built = run.get("built_in_seconds") if stage["node"] not in known else stage.get("seconds")
        rows.append(
            {
                "node": stage["node"],
                "stage": stage.get("stage") or stage["node"],
                "label": stage.get("label") or stage["node"],
                "status": run.get("status"),
                "this_run_seconds": run.get("seconds"),
                "key": run.get("key") or stage.get("key"),
                "seconds": run.get("built_in_seconds") if built is None else built,
                "bytes": stage.get("bytes") if stage.get("bytes") is not None else run.get("bytes"),
                "memory_bytes": stage.get("memory_bytes"),
            }
        )
    return rows
