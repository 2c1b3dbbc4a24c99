import itertools

import pytest

from configs.load import ConfigError, available, compose, load_language, load_model, load_recipe, merged, parse_override
from configs.schema import LocalModel

LANGUAGE = """code: xx
name: Test
corpus:
  sources:
    - {kind: sample, side: target, sentences: 10}
"""


@pytest.fixture
def own_configs(tmp_path, monkeypatch):
    """A folder of configurations searched before the packaged ones."""
    for kind in ("languages", "models", "recipes"):
        (tmp_path / kind).mkdir()
    monkeypatch.setenv("LANGADAPT_CONFIG_DIR", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("recipe", available("recipes"))
def test_every_shipped_combination_composes(recipe):
    """With every model and every language that has the parallel text that the recipe reads."""
    mapping = load_recipe(recipe).mapping
    languages = [load_language(name) for name in available("languages")]
    fitting = [item.code for item in languages if {*mapping.languages(item.source_language)} <= {*item.bitexts}]
    assert len(fitting) >= (1 if mapping.merged_languages() else 6)
    for language, model in itertools.product(fitting, available("models")):
        run = compose(language, model, recipe)
        assert (run.language, run.model.name, run.recipe) == (language, model, recipe)


def test_the_shipped_files_are_those_promised():
    assert set(available("languages")) >= {"eo", "sw", "tt", "hy", "nl", "it"}
    assert set(available("models")) >= {"tiny-english", "mistral-7b-v0.1", "llama-2-7b", "llama-3.1-8b"}
    assert set(available("recipes")) >= {"trans-tokenization", "mean", "random"}


def test_the_tatar_tables():
    run = compose("tt", "mistral-7b-v0.1", "trans-tokenization")
    first, second = run.training.resolved()
    assert (run.tokenizer.vocab_size, run.counts.min_count) == (32000, 10)
    assert (first.steps, first.trainable, first.schedule, first.warmup_steps) == (
        2500,
        "embeddings+head",
        "constant",
        75,
    )
    assert (second.steps, second.trainable, second.layers) == (4000, "bottom-top", 2)
    assert (second.schedule, second.schedule_steps) == ("linear", 7500)
    assert {phase.sequence_length for phase in (first, second)} == {512}
    assert {phase.batch_size for phase in (first, second)} == {32}
    assert {phase.learning_rate for phase in (first, second)} == {2e-5}


def test_recipes_differ_in_the_initialiser_only():
    base = load_recipe("trans-tokenization")
    for name in ("mean", "random"):
        assert load_recipe(name).training == base.training
        assert load_recipe(name).mapping.method == name


def test_overrides_are_laid_over_recipe_model_and_language():
    run = compose(
        "eo", "tiny-english", "mean", ["training.steps=30", "tokenizer.vocab_size=900", "fertility.max_sentences=5"]
    )
    assert (run.training.steps, run.tokenizer.vocab_size, run.fertility.max_sentences) == (30, 900, 5)
    assert run.training.sequence_length == 128  # from the model


def test_overrides_reach_into_lists_and_the_model():
    run = compose(
        "eo",
        "tiny-english",
        "mean",
        ["training.phases.1.layers=1", "model.pretraining.steps=7", "training.phases.0.share=3"],
    )
    assert run.training.resolved()[1].layers == 1
    assert run.model.pretraining.steps == 7


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.learningrate=3", "did you mean 'learning_rate'"),
        ("training.steps", "must look like key.subkey=value"),
        ("tokenizer.vocab_size=abc", "tokenizer.vocab_size: Input should be a valid integer.*got 'abc'"),
        ("tokenizer.vocab_size=5", "tokenizer.vocab_size: Input should be greater than or equal to 300"),
        ("training.schedule=linear", "override training.phases.0.schedule, training.phases.1.schedule"),
        ("corpus.sources.4.seed=1", "corpus.sources has items 0 to 0"),
        ("language=tt", "choose 'language' by its own argument"),
        ("colour=blue", "unknown key 'colour'"),
    ],
)
def test_a_bad_override_says_what_is_wrong(override, message):
    with pytest.raises(ConfigError, match=message):
        compose("eo", "tiny-english", "trans-tokenization", [override])


@pytest.mark.parametrize(
    "overrides",
    [
        ["training.steps=10", "training.tokens=1000"],
        ["training.warmup_ratio=0.1", "training.seed=3", "training.warmup_steps=5"],
        ["training.phases.1.batch_size=4", "training.phases.1.batch_tokens=4096"],
    ],
)
def test_overrides_that_say_the_same_thing_in_two_ways(overrides):
    with pytest.raises(ConfigError, match=f"overrides '{overrides[0]}' and '{overrides[-1]}' say the same thing"):
        compose("eo", "tiny-english", "mean", overrides)


def test_the_last_of_equal_overrides_counts_and_null_takes_one_back():
    run = compose("eo", "tiny-english", "mean", ["training.steps=10", "training.steps=13"])
    assert run.training.steps == 13
    run = compose(
        "eo", "tiny-english", "mean", ["training.steps=null", "training.tokens=13", "training.phases.0.steps=2"]
    )
    assert (run.training.steps, run.training.tokens) == (None, 13)


def test_override_values_are_yaml():
    assert parse_override("a.b=[1, x]") == (("a", "b"), [1, "x"])
    assert parse_override("a= true") == (("a",), True)


@pytest.mark.parametrize("code", ["en/us", "../../etc", "EN", ""])
def test_a_code_that_is_no_code_is_refused(code):
    with pytest.raises(ConfigError, match=r"language code .* must match"):
        load_language(code)


def test_an_unknown_name_gets_a_suggestion():
    with pytest.raises(ConfigError, match="did you mean 'tiny-english'"):
        load_model("tiny-englsh")


def test_an_unknown_key_names_file_line_and_the_known_key(own_configs):
    path = own_configs / "languages" / "xx.yaml"
    path.write_text(LANGUAGE + "  min_charaters: 3\n")
    with pytest.raises(
        ConfigError, match=r"xx\.yaml:6: unknown key 'corpus\.min_charaters'; did you mean 'min_characters'"
    ):
        load_language("xx")


def test_all_faults_are_listed_at_once(own_configs):
    path = own_configs / "languages" / "xx.yaml"
    path.write_text(LANGUAGE.replace("name: Test", "name: ''").replace("sentences: 10", "sentences: -1") + "nmae: 3\n")
    with pytest.raises(ConfigError) as error:
        load_language("xx")
    assert len(str(error.value).splitlines()) == 3
    assert "xx.yaml:5" in str(error.value)


def test_a_key_that_stands_twice_is_an_error(own_configs):
    path = own_configs / "languages" / "xx.yaml"
    path.write_text(LANGUAGE + "name: Other\n")
    with pytest.raises(ConfigError, match=r"xx\.yaml:6: not YAML: key 'name' stands twice"):
        load_language("xx")


@pytest.mark.parametrize(
    ("text", "message"), [("- 1\n", "a mapping of keys"), ("a: [1\n", "not YAML"), ("", "a mapping")]
)
def test_a_file_that_is_no_mapping(own_configs, text, message):
    (own_configs / "recipes" / "odd.yaml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_recipe("odd")


def test_a_language_may_only_override_recipe_sections(own_configs):
    (own_configs / "languages" / "xx.yaml").write_text(LANGUAGE + "overrides: {model: {name: x}}\n")
    with pytest.raises(ConfigError, match=r"overrides may change .* not model"):
        compose("xx", "tiny-english", "mean")


def test_trans_tokenization_needs_parallel_text(own_configs):
    (own_configs / "languages" / "xx.yaml").write_text(LANGUAGE)
    with pytest.raises(ConfigError, match="has no `bitext`"):
        compose("xx", "tiny-english", "trans-tokenization")
    assert compose("xx", "tiny-english", "mean").bitext is None


def test_several_source_languages_need_parallel_text_with_each():
    run = compose("tt", "towerinstruct-7b", "hydratower")
    assert list(run.bitexts_read) == ["en", "ru"]
    message = r"merges the mapping of source language 'ru', but language 'sw' has no parallel text with it"
    with pytest.raises(ConfigError, match=message):
        compose("sw", "tiny-english", "hydratower")
    with pytest.raises(
        ConfigError, match=r"further_bitexts\.ru\.seed is 3 and corpus\.seed is 0: they must be the same"
    ):
        compose("tt", "towerinstruct-7b", "hydratower", ["further_bitexts.ru.seed=3"])
    one = compose("tt", "towerinstruct-7b", "hydratower", ["mapping.trans_tokenization.source_languages={ru: 1}"])
    assert list(one.bitexts_read) == ["ru"]
    assert compose("tt", "towerinstruct-7b", "mean", ["further_bitexts.ru.seed=3"]).bitexts_read == {}


def test_a_further_bitext_is_of_another_source_language(own_configs):
    further = "further_bitexts: {en: {sources: [{kind: sample, side: both, sentences: 10}]}}\n"
    (own_configs / "languages" / "xx.yaml").write_text(LANGUAGE + further)
    with pytest.raises(ConfigError, match="further_bitexts names 'en'; the text with 'en' is `bitext`"):
        load_language("xx")


def test_a_folder_is_a_source_model(tmp_path):
    model = load_model(str(tmp_path))
    assert isinstance(model, LocalModel)
    assert model.path == str(tmp_path.resolve())
    with pytest.raises(ConfigError, match="does not exist"):
        load_model(str(tmp_path / "absent"))


def test_merged_replaces_values_and_joins_mappings():
    assert merged({"a": {"b": 1, "c": [1]}, "d": 2}, {"a": {"c": [3]}, "e": 4}) == {
        "a": {"b": 1, "c": [3]},
        "d": 2,
        "e": 4,
    }


@pytest.mark.parametrize(("name", "plain"), [("fp16 ĉ", "fp16"), ("ĉ", "model"), ("v1.0_b", "v1.0_b")])
def test_the_folder_of_a_model_may_have_any_name(tmp_path, name, plain):
    (tmp_path / name).mkdir()
    assert load_model(str(tmp_path / name)).name == plain


def test_the_name_of_a_language_file_is_its_code(own_configs):
    (own_configs / "languages" / "yy.yaml").write_text(LANGUAGE)
    with pytest.raises(ConfigError, match="'yy' and holds the code 'xx'; they must agree"):
        load_language("yy")


def test_a_control_character_or_a_folder_is_no_yaml(own_configs):
    (own_configs / "recipes" / "odd.yaml").write_text("name: a\x01b\n")
    (own_configs / "recipes" / "folder.yaml").mkdir()
    with pytest.raises(ConfigError, match=r"odd\.yaml: not YAML"):
        load_recipe("odd")
    with pytest.raises(ConfigError, match=r"folder\.yaml: cannot be read"):
        load_recipe("folder")


def test_infinity_is_no_learning_rate():
    with pytest.raises(ConfigError, match=r"training\.learning_rate: Input should be a finite number"):
        compose("eo", "tiny-english", "mean", ["training.learning_rate=.inf"])


def test_a_missing_folder_of_configurations_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setenv("LANGADAPT_CONFIG_DIR", str(tmp_path / "absent"))
    with pytest.raises(ConfigError, match="there is no folder"):
        available("languages")
