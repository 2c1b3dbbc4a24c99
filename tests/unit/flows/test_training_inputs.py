"""What a training phase reads besides the model and the target text."""

from types import SimpleNamespace

import pytest

import storage.store
from configs.load import compose
from configs.schema import key_fields
from flows.graph import build_graph
from flows.plan import make_plan
from storage.store import BuildRequest, Built, Store


@pytest.fixture
def nodes(tmp_path):
    def build(*overrides):
        run = compose("eo", "tiny-english", "trans-tokenization", overrides)
        return {node.id: node for node in build_graph(run, tmp_path, tmp_path / "index")}

    return build


def test_text_of_the_source_language_is_that_of_the_source_model(nodes):
    found = nodes("training.phases.1.mixture={shares: {target: 0.75, source: 0.25}}")
    assert dict(found["training.1"].inputs) == {"model": "initial-model", "corpus": "corpus"}
    assert dict(found["training.2"].inputs) == {
        "model": "training.1",
        "corpus": "corpus",
        "corpus.source": "source.corpus",
    }


def test_another_text_has_a_node_of_its_own(nodes):
    found = nodes(
        "training.mixture={temperature: 5, fixed: {en: 0.2}}",
        "mixed.en.sources=[{kind: sample, side: source, sentences: 50, seed: 9}]",
    )
    assert found["training.1"].inputs["corpus.en"] == found["training.2"].inputs["corpus.en"] == "corpus.en"
    assert found["corpus.en"].inputs["sample.sample"].startswith("sample.")
    order = list(found)
    assert order.index("corpus.en") < order.index("training.1")


def test_languages_of_the_group_are_mixed_by_temperature(nodes):
    group = "tokenizer.group=[en]"
    found = nodes(group, "training.mixture={temperature: 5}")
    assert found["training.1"].inputs["corpus.en"] == found["tokenizer"].inputs["corpus.en"] == "source.corpus"
    found = nodes(group, "training.mixture={temperature: 5, fixed: {source: 0.2}}")
    further = {name for name in found["training.1"].inputs if name.startswith("corpus.")}
    assert further == {"corpus.source"}, "the source language once"
    found = nodes(group, "training.mixture={shares: {target: 0.5, en: 0.5}}")
    assert found["training.1"].inputs["corpus.en"] == "source.corpus"


def test_adapters_are_trained_over_the_source_model(nodes):
    phases = "[{name: a, trainable: adapter}, {name: b, trainable: new-rows}, {name: c, trainable: all}]"
    found = nodes(f"training.phases={phases}")
    assert dict(found["training.1"].inputs) == {
        "model": "source.pretraining",
        "vocabulary": "initial-model",
        "mapping": "mapping",
        "corpus": "corpus",
    }
    assert dict(found["training.2"].inputs) == {"model": "training.1", "mapping": "mapping", "corpus": "corpus"}
    assert dict(found["training.3"].inputs) == {"model": "training.2", "corpus": "corpus"}


@pytest.mark.parametrize(
    ("override", "cost"),
    [
        ("training.steps=100", "38 steps, 77,824 tokens"),
        ("training.tokens=1000000", "384,615 tokens"),
        ("training.epochs=2", "0.769231 epochs"),
    ],
)
def test_a_plan_says_how_long_a_phase_is(nodes, tmp_path, override, cost):
    found = nodes(override, "training.phases.0.share=5", "training.phases.1.share=8")
    plan = {item.node.id: item for item in make_plan(list(found.values()), Store(str(tmp_path / "store")))}
    assert plan["training.1"].cost == cost


@pytest.fixture
def earlier(tmp_path, monkeypatch):
    """Puts trainings that were run before into a store: (phase's node, figures, seconds) -> Store."""
    store = Store(str(tmp_path / "store"))

    def add(node, figures, seconds, **config):
        times = iter([0.0, seconds])
        monkeypatch.setattr(storage.store, "time", SimpleNamespace(perf_counter=lambda: next(times)))
        request = BuildRequest(node.stage, 1, key_fields(node.config) | config, {})
        store.get_or_build(request, lambda out, work: (out / "file").touch() or Built(figures))
        return store

    return add


@pytest.mark.parametrize(
    ("override", "tokens"),
    [
        ("training.steps=100", 77_824),
        ("training.tokens=1000000", 384_615),
        ("training.epochs=2", 2 * 5 / 13 * 10_000 / 0.25),
    ],
)
def test_an_earlier_training_says_how_long_one_takes(nodes, earlier, override, tokens):
    """30 s, of which 20 for its steps (the last 5,000 of its 10,000 tokens), the rest for what is not steps."""
    found = nodes(override, "training.phases.0.share=5", "training.phases.1.share=8")
    figures = {"tokens": 10_000, "epochs": 0.25, "tokens_per_second": 250.0, "step_seconds": 20.0}
    earlier(found["training.1"], {**figures, "tokens_per_second": 1.0}, 99.0, trainable="lora", seed=8)
    store = earlier(found["training.1"], figures, 30.0, seed=7)
    plan = {item.node.id: item for item in make_plan(list(found.values()), store)}
    assert plan["training.1"].seconds == pytest.approx(10 + tokens / 250)
    assert plan["tokenizer"].seconds is None


def test_an_earlier_training_that_only_finished_says_nothing(nodes, earlier):
    """Its last process found the last checkpoint and took no step."""
    found = nodes("training.steps=100")
    figures = {"tokens": 10_000, "epochs": 0.25, "tokens_per_second": 0.0, "step_seconds": 0.0}
    store = earlier(found["training.1"], figures, 30.0, seed=7)
    plan = {item.node.id: item for item in make_plan(list(found.values()), store)}
    assert plan["training.1"].seconds is None
