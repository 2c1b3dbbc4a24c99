"""What a run's configuration tells the model card, and that naming a licence trains nothing."""

import pytest

from configs.load import compose
from configs.schema import key_fields
from flows.graph import build_graph


@pytest.fixture
def nodes(tmp_path):
    def build(*overrides, recipe="trans-tokenization", model="tiny-english"):
        run = compose("eo", model, recipe, overrides)
        return {node.id: node for node in build_graph(run, tmp_path, tmp_path / "index")}

    return build


def test_the_card_comes_after_the_evaluations_and_before_the_report(nodes):
    ids = list(nodes())
    assert ids[-2:] == ["card", "report"]
    assert ids[-3] == "evaluation.2"


def test_the_card_reads_what_it_tells_about(nodes):
    card = nodes()["card"]
    assert {node.node for node in card.config.nodes} == set(card.inputs)
    assert {"corpus", "bitext", "source.corpus", "mapping", "training.2", "evaluation.source"} <= set(card.inputs)
    assert not {"sample", "source.tokenizer", "alignment"} & set(card.inputs)
    labels = {node.node: (node.label, node.model) for node in card.config.nodes}
    assert labels["training.2"][0] == labels["evaluation.2"][1] == "phase 2 outer-layers"
    assert card.config.evaluated == "evaluation.2"


def test_without_training_the_card_is_of_the_initial_model(nodes):
    card = nodes("training.steps=0")["card"]
    assert card.config.evaluated == "evaluation.initial"
    assert not [node for node in card.config.nodes if node.stage == "training"]


def test_sources_of_corpora_and_bitexts_come_with_their_licences(nodes):
    card = nodes("corpus.sources.0.license=cc0-1.0", "bitext.sources.0.homepage=https://example.org/a")["card"].config
    found = {source.corpus: source for source in card.sources}
    assert set(found) == {"corpus", "bitext", "source.corpus"}
    assert found["corpus"].license == "cc0-1.0"
    assert found["bitext"].license is None
    assert found["bitext"].homepage == "https://example.org/a"
    assert "bitext" not in {source.corpus for source in nodes(recipe="mean")["card"].config.sources}


def test_a_licence_is_in_no_key_but_the_cards(nodes):
    before, after = nodes(), nodes("corpus.sources.0.license=cc0-1.0", "model.license=mit")
    changed = {name for name in before if key_fields(before[name].config) != key_fields(after[name].config)}
    assert changed == {"card"}


def test_a_model_of_the_hub_is_named_by_its_repository(nodes):
    commit = "model.revision=" + "0123456789" * 4
    card = nodes(commit, model="mistral-7b-v0.1")["card"].config
    assert (card.source.repository, card.source.license) == ("mistralai/Mistral-7B-v0.1", "apache-2.0")
    assert card.name == "mistral-7b-v0.1-eo-trans-tokenization"
    assert "source.corpus" not in {source.corpus for source in card.sources}


def test_a_helper_is_named_where_something_of_it_is_taken(nodes, write_model, tmp_path):
    folder = write_model("config.json", "model.safetensors", "tokenizer.json").relative_to(tmp_path)
    helper = f"helper={{kind: local, name: small, path: {folder}, license: mit}}"
    assert nodes(helper)["card"].config.helper is None
    card = nodes(helper, "mapping.method=sava", recipe="mean")["card"].config
    assert (card.helper.name, card.helper.license) == ("small", "mit")
