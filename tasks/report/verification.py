"""What the verification of the initial model found: every check with its figures, warnings first to be read."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tasks.report.artifacts import Artifact, of_stage
from tasks.report.data import Row

LENGTHS = "row lengths of the "
QUANTILES = {
    "0": "shortest", "0.01": "1 %", "0.25": "25 %", "0.5": "median", "0.75": "75 %", "0.99": "99 %", "1": "longest",
}  # fmt: skip


def verification(artifacts: Sequence[Artifact]) -> Row | None:
    """The checks of the initial model; None where the run has none."""
    for artifact in of_stage(artifacts, "initial-model"):
        text = artifact.text("verification.json")
        if text is not None:
            found = json.loads(text)["checks"]
            summary = (artifact.manifest().get("summary") or {}).get("verification") or {}
            checks = [_check(check, summary) for check in found]
            counts = Counter(check["status"] for check in checks)
            return {"checks": checks, "counts": dict(sorted(counts.items())), "lengths": list(_lengths(found))}
    return None


def warnings(verified: Row | None) -> list[Row]:
    """The checks that gave a warning."""
    return [] if verified is None else [check for check in verified["checks"] if check["status"] == "warning"]


def _check(check: Row, summary: Row) -> Row:
    """A check as the page shows it; what depends on the machine's arithmetic is in the manifest's summary alone."""
    name = check["name"]
    figures = {} if name.startswith(LENGTHS) else check["figures"]
    measured = (summary.get("measured") or {}).get(name) or {}
    message = (summary.get("warnings") or {}).get(name) or check.get("message") or ""
    shown = [{"name": key, "value": value} for key, value in _flat({**figures, **measured})]
    return {"name": name, "status": check["status"], "message": message, "figures": shown}


def _flat(figures: Mapping[str, Any], lead: str = "") -> Iterator[tuple[str, Any]]:
    """The figures with those of inner tables, whose names begin with the table's."""
    for name, value in figures.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{lead}{name} ")
        else:
            yield lead + name, value


def _lengths(checks: Sequence[Row]) -> Iterator[Row]:
    """Quantiles of the rows' lengths: table, rows ('source', 'new') and one value for each of `QUANTILES`."""
    for check in checks:
        if check["name"].startswith(LENGTHS):
            for side in ("source", "new"):
                values = check["figures"].get(side) or {}
                table = check["name"].removeprefix(LENGTHS)
                yield {"table": table, "rows": side, "values": [values.get(name) for name in QUANTILES]}
