"""What each stage cost, from its manifest."""

from collections.abc import Sequence

from tasks.report.artifacts import Artifact
from tasks.report.data import Row

FIELDS = ("key", "digest", "seconds", "bytes", "started_at", "host", "summary", "config")
MEMORY = "peak_memory_bytes"


def stages(artifacts: Sequence[Artifact]) -> list[Row]:
    """One row a node; figures of a node without a manifest are None."""
    rows = []
    for artifact in artifacts:
        manifest = artifact.manifest()
        row: Row = {"node": artifact.node, "stage": artifact.stage, "label": artifact.label}
        row |= {name: manifest.get(name) for name in FIELDS}
        row["memory_bytes"] = manifest.get(MEMORY, (manifest.get("summary") or {}).get(MEMORY))
        rows.append(row)
    return rows


def libraries(artifacts: Sequence[Artifact]) -> dict[str, str]:
    """Version of each library; where artifacts were built with different ones, all of them."""
    found: dict[str, set[str]] = {}
    for artifact in artifacts:
        for name, version in (artifact.manifest().get("libraries") or {}).items():
            found.setdefault(str(name), set()).add(str(version))
    return {name: ", ".join(sorted(found[name])) for name in sorted(found)}
