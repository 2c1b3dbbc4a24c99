"""A stage that shows speeds is given the measurements of its inputs' builds; no other stage is, and no key has them."""

import pyarrow.parquet as pq
import pytest

from configs.schema import ReportConfig
from flows.execution import execute
from flows.graph import Node
from storage.store import BuildRequest, Built, Store
from tasks.contract import Stage, StageResult


@pytest.mark.parametrize("shows", [True, False])
def test_measurements_of_the_inputs(tmp_path, monkeypatch, shows):
    store = Store(str(tmp_path / "store"))
    artifacts = {}
    for name, rows in (("training", [{"tokens_per_second": 12.5}]), ("corpus", [])):

        def build(out, work, rows=rows):
            (out / "file").write_text("x")
            return Built(measurements=rows)

        artifacts[name] = store.get_or_build(BuildRequest(name, 1, {}, {}), build).artifact
    given = {}

    def run(context):
        given.update({name: pq.read_table(path).to_pylist() for name, path in context.measurements.items()})
        (context.out / "page").write_text("x")
        return StageResult()

    stage = Stage("report", 1, ReportConfig, run, reads_measurements=shows)
    for module in ("execution", "plan"):
        monkeypatch.setattr(f"flows.{module}.load_stage", lambda name: stage)
    inputs = {name: name for name in artifacts}
    execute(Node("report", "report", "report", ReportConfig(title="t", language="eo"), inputs), artifacts, store)
    assert given == ({"training": [{"tokens_per_second": 12.5}]} if shows else {})
