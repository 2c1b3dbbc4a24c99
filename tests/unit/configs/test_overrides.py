"""Single values laid over a configuration, and the messages where they cannot be."""

import copy

import pytest

from configs.faults import ConfigError
from configs.load import available, compose, load_model
from configs.overrides import overridden
from configs.schema import RunConfig


def test_parameters_of_an_initialiser_that_the_recipe_does_not_name():
    run = compose(
        "eo", "tiny-english", "trans-tokenization", ["mapping.method=wechsel", "mapping.wechsel.neighbours=5"]
    )
    assert run.mapping.method == "wechsel"
    assert run.mapping.wechsel.neighbours == 5
    assert run.mapping.wechsel.temperature == 0.1
    deep = compose("eo", "tiny-english", "mean", ["mapping.method=focus", "mapping.focus.fasttext.epochs=7"])
    assert deep.mapping.focus.fasttext.epochs == 7


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("mapping.wechsel.neighbours=5", r"mapping\.wechsel holds parameters .* mapping\.method is 'mean'"),
        ("mapping.wechsel.neighbors=5", "unknown key 'mapping.wechsel.neighbors'; did you mean 'neighbours'"),
        ("mapping.wechsle.neighbours=5", "unknown key 'mapping.wechsle'; did you mean 'wechsel'"),
        ("helper.path=models/own", "helper is not set in this run; give it whole, as helper="),
        ("tokenizer.vocab_size.more=3", "tokenizer.vocab_size is 1600, which has nothing inside"),
        ("corpus.sources.0.sentense=3", "unknown key 'corpus.sources.0.sentense'; did you mean 'sentences'"),
        ("corpus.sources.first.seed=3", "corpus.sources has items 0 to 0, not 'first'"),
        ("model.overrides.training.steps=3", "override training.steps itself"),
    ],
)
def test_an_override_that_cannot_be(override, message):
    with pytest.raises(ConfigError, match=message):
        compose("eo", "tiny-english", "mean", [override])


def test_a_whole_section_may_be_replaced_and_then_changed():
    whole = "training={steps: 4, phases: [{name: a, trainable: all}]}"
    run = compose("eo", "tiny-english", "mean", [whole, "training.learning_rate=0.5", "training.phases.0.name=b"])
    assert (run.training.learning_rate, run.training.phases[0].name) == (0.5, "b")
    with pytest.raises(ConfigError, match=r"training\.phases: Field required"):
        compose("eo", "tiny-english", "mean", ["training={steps: 4}", "training.learning_rate=0.5"])


def test_names_of_a_mapping_that_takes_any():
    run = compose("eo", "tiny-english", "trans-tokenization", ["counts.corpus_weights.sample=0.5"])
    assert run.counts.corpus_weights == {"sample": 0.5}
    part = "mapping={method: blend, blend: {parts: [{method: random}]}}"
    run = compose("eo", "tiny-english", "mean", [part, "mapping.blend.parts.0.settings.copy_shared=true"])
    assert run.mapping.blend.parts[0].config(0).copy_shared


def test_nothing_is_changed_in_place():
    tree = {"training": {"phases": [{"name": "a"}, {"name": "b"}], "steps": 3}, "corpus": {"seed": 1}}
    before = copy.deepcopy(tree)
    changed = overridden(tree, RunConfig, "training.phases.1.name=c")
    assert tree == before
    assert changed["training"]["phases"] == [{"name": "a"}, {"name": "c"}]
    assert changed["corpus"] is tree["corpus"]


def test_an_override_leaves_no_trace_in_what_is_read_later():
    """Files are read once and kept; what one run changes, another must not see."""
    before = compose("eo", "tiny-english", "mean")
    overrides = copy.deepcopy(load_model("tiny-english").overrides)
    compose("eo", "tiny-english", "mean", ["training.phases.1.layers=1", "training.phases.0.share=3"])
    compose("eo", "tiny-english", "mean", ["training.steps=3", "evaluation.window=9"])
    assert compose("eo", "tiny-english", "mean") == before
    assert load_model("tiny-english").overrides == overrides
    assert "tiny-english" in available("models")
