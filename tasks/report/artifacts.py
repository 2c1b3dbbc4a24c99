"""The artifacts that a report is made of: which folder holds which node."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from configs.schema import ReportNode
from tasks.report.data import Row

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Artifact:
    """A node of the run and its folder, if the report was given one.

    Attributes:
        node: id of the node.
        stage: stage that made it.
        label: heading.
        folder: its files; None where the run has no such artifact.
        model: evaluation: heading of the measured model; "" if none is given.
        measured: Parquet file of times and speeds of its build; None if it is not known.
    """

    node: str
    stage: str
    label: str
    folder: Path | None
    model: str = ""
    measured: Path | None = None

    def table(self, name: str, columns: Sequence[str] | None = None) -> pa.Table | None:
        """The Parquet file `name`; None where it is not there."""
        return _read(None if self.folder is None else self.folder / name, columns)

    def measurements(self) -> pa.Table | None:
        """Times and speeds of its build; None where there are none."""
        return _read(self.measured)

    def rows(self, name: str) -> list[Row]:
        """The rows of the Parquet file `name`; none where it is not there."""
        table = self.table(name)
        rows: list[Row] = [] if table is None else table.to_pylist()
        return rows

    def text(self, name: str) -> str | None:
        """The text file `name`; None where it is not there."""
        path = None if self.folder is None else self.folder / name
        return None if path is None or not path.is_file() else path.read_text(encoding="utf-8")

    def manifest(self) -> Row:
        """The manifest; empty where there is none."""
        text = self.text(MANIFEST)
        manifest: Row = {} if text is None else json.loads(text)
        return manifest


def _read(path: Path | None, columns: Sequence[str] | None = None) -> pa.Table | None:
    if path is None or not path.is_file():
        return None
    return pq.ParquetFile(path).read(columns=None if columns is None else list(columns))


def find_artifacts(
    nodes: Sequence[ReportNode], inputs: Mapping[str, Path], measurements: Mapping[str, Path] | None = None
) -> list[Artifact]:
    """The artifacts of `nodes`, in their order.

    Args:
        nodes: what is wanted.
        inputs: folder of each node, by node id; any may be missing.
        measurements: Parquet file of times and speeds of each node's build, by node id; any may be missing.
    """
    measured = measurements or {}
    found = []
    for node in nodes:
        folder = inputs.get(node.node)
        there = folder if folder is not None and folder.is_dir() else None
        found.append(
            Artifact(node.node, node.stage, node.label or node.node, there, node.model, measured.get(node.node))
        )
    return found


def of_stage(artifacts: Sequence[Artifact], *stages: str) -> list[Artifact]:
    """The artifacts of `stages`, in their order."""
    return [artifact for artifact in artifacts if artifact.stage in stages]
