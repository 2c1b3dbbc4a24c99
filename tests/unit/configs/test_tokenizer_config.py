"""The target vocabulary's settings, the group of languages and the helper model."""

import pytest
from pydantic import ValidationError

from configs.load import ConfigError, compose, load_recipe
from configs.schema import BuiltModel, RunConfig, TokenizerConfig, key_fields, unused_settings

OTHER = """code: yy
name: Other
corpus:
  sources:
    - {kind: sample, side: source, sentences: 20}
"""
RECIPE = """name: own
tokenizer: {%s}
mapping: {method: mean}
training: {steps: 10, phases: [{name: all, trainable: all}]}
"""


@pytest.fixture
def own_configs(tmp_path, monkeypatch):
    for kind in ("languages", "models", "recipes"):
        (tmp_path / kind).mkdir()
    monkeypatch.setenv("LANGADAPT_CONFIG_DIR", str(tmp_path))
    (tmp_path / "languages" / "yy.yaml").write_text(OTHER)
    return tmp_path


def recipe(folder, text):
    (folder / "recipes" / "own.yaml").write_text(RECIPE % text)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"new_tokens": 5}, "strategy 'train' with algorithm 'bpe' does not read new_tokens .set to 5.; take it out"),
        (
            {"algorithm": "byte-bpe", "character_coverage": 0.99},
            "algorithm 'byte-bpe' does not read character_coverage",
        ),
        ({"strategy": "expand", "keep_added_tokens": False}, "strategy 'expand' does not read keep_added_tokens"),
        ({"strategy": "expand", "vocab_size": 500}, "strategy 'expand' does not read vocab_size"),
        ({"strategy": "expand", "algorithm": "unigram"}, "strategy 'expand' does not read algorithm"),
        ({"strategy": "existing", "seed": 1, "group": ["sw"]}, "does not read group .*, seed"),
        ({"strategy": "extend"}, "Input should be 'train', 'expand', 'existing' or 'source'"),
        ({"group": ["sw", "sw"]}, "names a language twice"),
        ({"group": ["../sw"]}, "String should match pattern"),
        ({"newtokens": 5}, "Extra inputs are not permitted"),
    ],
)
def test_a_setting_that_is_not_read_is_refused(settings, message):
    with pytest.raises(ValidationError, match=message):
        TokenizerConfig(**settings)


def test_every_setting_is_read_by_some_strategy():
    read = set()
    for strategy in ("train", "expand", "existing", "source"):
        for algorithm in ("bpe", "unigram", "byte-bpe"):
            unused = unused_settings(strategy, algorithm)
            assert unused <= set(TokenizerConfig.model_fields)
            read |= set(TokenizerConfig.model_fields) - unused
    assert read == set(TokenizerConfig.model_fields)


def test_codes_of_a_group_are_in_no_key():
    assert key_fields(TokenizerConfig(group=("sw", "en"))) == key_fields(TokenizerConfig())


def test_a_recipe_that_sets_what_its_strategy_does_not_read(own_configs):
    recipe(own_configs, "strategy: existing, vocab_size: 500")
    with pytest.raises(ConfigError, match=r"own\.yaml:2: tokenizer: .*'existing' does not read vocab_size"):
        load_recipe("own")


def test_a_languages_vocabulary_size_is_for_strategies_that_train_one(own_configs):
    recipe(own_configs, "strategy: expand, new_tokens: 5")
    run = compose("eo", "tiny-english", "own")  # eo.yaml says vocab_size: 1600
    assert (run.tokenizer.strategy, run.tokenizer.vocab_size) == ("expand", 32_000)
    run = compose("eo", "tiny-english", "mean", ["tokenizer.strategy=existing"])
    assert run.tokenizer == TokenizerConfig(strategy="existing")
    with pytest.raises(ConfigError, match=r"'expand' does not read vocab_size \(set to 900\)"):
        compose("eo", "tiny-english", "own", ["tokenizer.vocab_size=900"])
    with pytest.raises(ConfigError, match="Input should be 'train', 'expand', 'existing' or 'source'"):
        compose("eo", "tiny-english", "own", ["tokenizer.strategy=nothing"])


def test_merge_needs_merges():
    with pytest.raises(ConfigError, match=r"'unigram' has none; take 'bpe' or 'byte-bpe', or another method"):
        compose("eo", "tiny-english", "mean", ["mapping.method=merge", "tokenizer.algorithm=unigram"])
    compose("eo", "tiny-english", "mean", ["mapping.method=merge"])


@pytest.mark.parametrize("method", ["random", "trans-tokenization", "wechsel"])
def test_a_vocabulary_that_is_kept_keeps_its_rows(method):
    expanded = ["tokenizer.strategy=expand", f"mapping.method={method}"]
    assert compose("eo", "tiny-english", "mean", expanded).mapping.copy_shared
    with pytest.raises(ConfigError, match=r"would change the rows of the source's own tokens too"):
        compose("eo", "tiny-english", "mean", [*expanded, "mapping.copy_shared=false"])
    assert compose("eo", "tiny-english", "mean", expanded[1:]).mapping.copy_shared is None


@pytest.mark.parametrize(
    ("setting", "method"), [("smoothing=0.5", "trans-tokenization"), ("copy_shared=true", "random")]
)
def test_a_setting_of_another_initialiser_is_refused(setting, method):
    with pytest.raises(ConfigError, match=f"is read by '{method}'.* alone, but mapping.method is 'mean'; take it out"):
        compose("eo", "tiny-english", "mean", [f"mapping.{setting}"])
    compose("eo", "tiny-english", "mean", [f"mapping.method={method}", f"mapping.{setting}"])


def test_a_group_brings_its_corpora(own_configs):
    run = compose("eo", "tiny-english", "mean", ["tokenizer.group=[yy, en]", "group.yy.sources.0.sentences=7"])
    assert set(run.group) == {"yy", "en"}
    assert run.group["yy"].sources[0].sentences == 7
    assert run.group["en"] == run.model.corpus  # the source model's own text
    assert compose("eo", "tiny-english", "mean").group == {}


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["tokenizer.group=[zz]"], "no language named 'zz'"),
        (["tokenizer.group=[eo]"], "tokenizer.group names 'eo', whose corpus is there already"),
        (["tokenizer.group=yy"], "Input should be a valid tuple"),
        (["group.yy.seed=1"], "group.yy is not set in this run"),
        (["tokenizer=nothing"], "Input should be a valid dictionary"),
        (["helper={kind: hub, name: a, repository: x/y, trust_remote_code: true}"], "helper.hub.trust_remote_code"),
        (["helper={kind: built, name: a}"], "'built' found using 'kind' does not match"),
        (["model.tokenizer.group=[yy]"], "tokenizer of a built model: strategy must be 'train'"),
    ],
)
def test_bad_groups_and_helpers(own_configs, overrides, message):
    with pytest.raises(ConfigError, match=message):
        compose("eo", "tiny-english", "mean", overrides)


def test_a_language_has_its_helper(own_configs):
    (own_configs / "languages" / "yy.yaml").write_text(OTHER + "helper: {kind: local, name: own, path: models/own}\n")
    run = compose("yy", "tiny-english", "mean")
    assert (run.helper.kind, run.helper.path) == ("local", "models/own")
    other = compose("yy", "tiny-english", "mean", ["helper={kind: hub, name: other, repository: some/other}"])
    assert other.helper.repository == "some/other"
    assert compose("eo", "tiny-english", "mean").helper is None


def test_group_and_corpora_belong_together():
    run = compose("eo", "tiny-english", "mean")
    assert isinstance(run.model, BuiltModel)
    with pytest.raises(ValidationError, match=r"tokenizer\.group is \[\], but group has \['en'\]"):
        RunConfig(**{**run.model_dump(), "group": {"en": run.model.corpus}})
