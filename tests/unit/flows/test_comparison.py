"""Comparisons of initialisers: one graph, targeted overrides, and what is left out."""

import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from configs.load import ConfigError
from flows import cli
from flows.comparison import ComparisonRequest, initialisers, join, prepare_comparison
from flows.execution import NodeOutcome, execute
from flows.graph import Node
from flows.runner import drive
from flows.settings import Settings
from storage.store import BuildRequest, Built
from tasks.contract import InputError
from tasks.isolation import StageFailed

NO_BITEXT = """
code: qq
name: Testish
corpus: {sources: [{kind: sample, side: target, sentences: 300}]}
"""


@pytest.fixture
def where(tmp_path):
    return Settings(store=str(tmp_path / "store"), data_root=tmp_path)


def prepared(where, *names, **options):
    return prepare_comparison(ComparisonRequest("eo", names, **options), where)


def test_shared_nodes_are_there_once_and_the_others_carry_the_name(where):
    nodes = {node.id: node for node in prepared(where, "mean", "random", "trans-tokenization").nodes}
    assert {"corpus", "tokenizer", "source.pretraining", "alignment", "counts", "evaluation.source"} <= set(nodes)
    assert {"mapping.mean", "mapping.random", "mapping.trans-tokenization"} <= set(nodes)
    assert "mapping" not in nodes
    assert nodes["mapping.mean"].inputs["tokenizer"] == "tokenizer"
    assert nodes["initial-model.mean"].inputs["mapping"] == "mapping.mean"
    assert nodes["mapping.mean"].label.endswith(" mean")
    assert not any(node.stage in ("training", "report") for node in nodes.values())
    seen = set()
    for node in nodes.values():
        assert set(node.inputs.values()) <= seen
        seen.add(node.id)


def test_all_initialisers_is_the_default_and_each_is_a_branch_or_left_out(where):
    config = prepared(where).nodes[-1].config
    assert {*config.initialisers, *(item.initialiser for item in config.skipped)} == set(initialisers())


def test_a_single_initialiser_keeps_the_names(where):
    assert "mapping" in {node.id for node in prepared(where, "mean").nodes}


def test_joined_nodes_differ_where_what_they_read_differs(where):
    shape = prepared(where, "mean").nodes[0].config
    one = (Node("a", "sample", "a", shape), Node("b", "sample", "b", shape, {"x": "a"}))
    other = (replace(one[0], config=shape.model_copy(update={"seed": 9})), one[1])
    found = join({"p": one, "q": other})
    assert [node.id for node in found.nodes] == ["a.p", "b.p", "a.q", "b.q"]
    assert join({"p": one, "q": one}).nodes == one


def test_an_override_of_one_initialiser_reaches_it_alone(where):
    nodes = {
        node.id: node
        for node in prepared(
            where, "focus", "mean", overrides=("mapping.focus.fasttext.epochs=7", "mapping.seed=4")
        ).nodes
    }
    assert nodes["mapping.focus"].config.focus.fasttext.epochs == 7
    assert nodes["mapping.mean"].config.focus is None
    assert {nodes[f"mapping.{name}"].config.seed for name in ("focus", "mean")} == {4}


@pytest.mark.parametrize(
    ("names", "overrides", "message"),
    [
        (("maen",), (), "did you mean 'mean'"),
        (("mean",), ("mapping.method=random",), "chooses the initialisers by --initialisers"),
        (("mean",), ("mapping={method: random}",), "chooses the initialisers by --initialisers"),
        (
            ("mean", "random"),
            ("mapping.focus.fasttext.epochs=7",),
            "is read by 'focus' alone, and compared are: mean",
        ),
        (
            ("mean",),
            ("mapping.copy_shared=true",),
            "is read by 'random', 'trans-tokenization', 'wechsel'",
        ),
        (("mean",), ("mapping.focsu.fasttext.epochs=7",), "did you mean 'focus'"),
        (("focus",), ("mapping.focus.epoch=7",), "epoch"),
        (("mean",), ("tokenizer.vocab_sise=500",), "did you mean 'vocab_size'"),
    ],
)
def test_faults_of_the_request_are_errors_and_no_reason_to_leave_out(where, names, overrides, message):
    with pytest.raises(ConfigError, match=message):
        prepared(where, *names, overrides=overrides)


def test_random_keeps_the_rows_of_a_vocabulary_that_is_expanded(where):
    def drawn(*overrides):
        nodes = prepared(where, "random", "mean", overrides=overrides).nodes
        return {node.id: node for node in nodes}["mapping.random"].config

    assert not drawn().copy_shared
    assert drawn("tokenizer.strategy=expand").copy_shared
    assert drawn("mapping.copy_shared=true").copy_shared


def test_where_none_can_run_the_reasons_are_an_error(where):
    with pytest.raises(InputError, match=r"none of the initialisers can run:\nclp: .* needs a helper model"):
        prepared(where, "clp", "sava")


def test_a_language_without_parallel_text_leaves_out_what_needs_it(where, tmp_path, monkeypatch):
    (tmp_path / "own" / "languages").mkdir(parents=True)
    (tmp_path / "own" / "languages" / "qq.yaml").write_text(NO_BITEXT)
    monkeypatch.setenv("LANGADAPT_CONFIG_DIR", str(tmp_path / "own"))
    request = ComparisonRequest("qq", ("mean", "trans-tokenization", "clp"))
    config = prepare_comparison(request, where).nodes[-1].config
    assert config.initialisers == ("mean",)
    reasons = {item.initialiser: item.reason for item in config.skipped}
    assert "no `bitext`" in reasons["trans-tokenization"]
    assert "helper" in reasons["clp"]


@pytest.fixture
def in_process(monkeypatch):
    """Isolated stages run in this process: what they do is tested elsewhere, starting one takes seconds."""
    monkeypatch.setattr("flows.execution.run_stage", lambda stage, context, on_line: stage.run(context))


def fake_artifacts(store, failing, error=InputError("no two tokens are shared")):  # noqa: B008
    """Runs nodes by writing what the comparison reads; the node `failing` cannot use its input."""

    def build(out, work):
        pq.write_table(pa.table({"metric": ["bits_per_byte"], "value": [2.0]}), out / "metrics.parquet")
        tokens = pa.table({"origin": ["mean", "special"], "frequency": [3, 1], "sources": [2, 0]})
        pq.write_table(tokens, out / "tokens.parquet")
        return Built()

    def run_node(node, artifacts, force):
        if node.id == failing:
            raise error
        if node.stage == "comparison":
            inputs = {name: i for name, i in node.inputs.items() if name.startswith(("evaluation.", "mapping."))}
            return execute(replace(node, inputs=inputs), artifacts, store)
        artifact = store.get_or_build(BuildRequest(node.stage, 1, {"id": node.id}, {}), build).artifact
        return NodeOutcome(node.id, node.stage, node.label, "Completed", artifact, 0.0)

    return run_node


def test_an_initialiser_that_fails_on_its_input_is_left_out_with_its_reason(where, in_process):
    ready = prepared(where, "mean", "random", "trans-tokenization")
    result = drive(ready, fake_artifacts(ready.store, "counts"))
    rows = {row["initialiser"]: row for row in result.results}
    assert rows["trans-tokenization"]["skipped"] == "no two tokens are shared"
    assert rows["mean"]["bits_per_byte"] == 2.0
    assert rows["mean"]["coverage"] == 0.75
    assert rows["mean"]["uncovered_rows"] == 1
    nodes = {outcome.node for outcome in result.outcomes}
    assert "evaluation.initial.trans-tokenization" not in nodes
    assert "evaluation.initial.mean" in nodes
    record = json.loads(ready.store.read_run(result.run_id))
    assert record["status"] == "completed"
    assert record["left_out"]["mapping.trans-tokenization"] == "no two tokens are shared"
    assert "no two tokens are shared" in ready.store.read_run(result.run_id, "report.html").decode()


def test_a_stage_that_fails_is_told_from_input_that_does_not_fit(where, in_process):
    ready = prepared(where, "mean", "random")
    error = StageFailed("mapping failed: ValueError: odd\nTraceback ...")
    result = drive(ready, fake_artifacts(ready.store, "mapping.random", error))
    assert {row["initialiser"]: row["skipped"] for row in result.results} == {
        "mean": None, "random": "failed: mapping failed: ValueError: odd",
    }  # fmt: skip


def test_what_all_need_still_ends_the_run(where):
    ready = prepared(where, "mean", "random")
    with pytest.raises(InputError, match="no two tokens"):
        drive(ready, fake_artifacts(ready.store, "corpus"))


def test_the_command_plans_and_refuses(tmp_path, monkeypatch, capsys):
    def call(*arguments):
        monkeypatch.setattr("sys.argv", ["langadapt", "compare", *arguments, "--store", str(tmp_path / "store")])
        try:
            cli.main()
        except SystemExit as end:
            return end.code or 0
        return 0

    assert call("eo", "-i", "mean, random, clp", "--plan") == 0
    output = capsys.readouterr().out
    assert "mapping en-eo random" in output
    assert "left out: clp: mapping.method 'clp' needs a helper model" in output.replace("\n", " ")
    assert call("eo", "-i", "maen") == cli.EXIT_INPUT
    assert "did you mean 'mean'" in capsys.readouterr().err


def test_the_flow_offers_every_initialiser():
    from flows.compare_initialisers import compare_initialisers

    schema = json.dumps(compare_initialisers.parameters.model_dump())
    assert all(name in schema for name in initialisers())
