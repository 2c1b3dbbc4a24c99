"""`push_to`: what a finished run does with it, and that no key depends on it."""

import json

import pytest

from configs.load import compose
from configs.schema import key_fields
from flows.display import LogDisplay
from flows.graph import build_graph
from flows.runner import prepare, run_in_process
from flows.runs import RunRequest
from flows.settings import Settings


def test_no_stage_reads_where_a_run_is_pushed_to(tmp_path):
    def configs(*overrides):
        run = compose("eo", "tiny-english", "trans-tokenization", overrides)
        return [key_fields(node.config) for node in build_graph(run, tmp_path, tmp_path / "index")]

    assert configs() == configs("push_to=me/model")


@pytest.mark.parametrize("until", ["sample", None])
def test_only_a_run_that_has_come_to_its_end_is_pushed(tmp_path, monkeypatch, until):
    asked = []
    monkeypatch.setattr("flows.hub_push.push_finished", lambda *arguments: asked.append(arguments) or {"error": "no"})
    small = ("corpus.sources.0.sentences=300", "model.corpus.sources.0.sentences=300", "push_to=me/model")
    request = RunRequest("eo", "tiny-english", "mean", small, until="sample")
    prepared = prepare(request, Settings(store=str(tmp_path / "store"), data_root=tmp_path))
    if until is None:  # the sample stands for the card, whose stage takes a whole chain
        monkeypatch.setattr("flows.runner.PUSHED_AFTER", "sample")
    result = run_in_process(prepared, LogDisplay())
    record = json.loads(prepared.store.read_run(result.run_id))
    assert record["status"] == "completed"
    assert result.pushed == (None if until else {"error": "no"})
    assert [arguments[1:] for arguments in asked] == ([] if until else [(result.run_id, "me/model")])
