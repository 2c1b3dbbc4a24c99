"""The shipped recipes: one for every initialiser, with the papers' values, each value's source named."""

from typing import get_args

import pytest

from configs.load import ConfigError, available, compose, load_recipe
from configs.schema import Method
from tasks.embeddings.registry import INITIALISERS

RECIPES = available("recipes")


def test_every_initialiser_has_a_recipe():
    methods = {load_recipe(name).mapping.method for name in RECIPES}
    assert methods >= set(INITIALISERS)
    assert methods <= set(get_args(Method))


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_named_as_its_file_and_says_where_its_values_come_from(name):
    recipe = load_recipe(name)
    assert recipe.name == name
    assert recipe.paper
    assert RECIPES[name].read_text(encoding="utf-8").startswith("# ")


@pytest.mark.parametrize("name", [name for name in RECIPES if load_recipe(name).mapping.method == "random"])
def test_random_draws_new_rows_alone_where_the_paper_copies_shared_tokens(name):
    assert bool(load_recipe(name).mapping.copy_shared) is name.startswith(("lowres-", "sava-"))


LOWRES = [name for name in RECIPES if name.startswith("lowres-")]
GRID = [name for name in LOWRES if name.endswith(("-512", "-2048"))]
STRATEGIES = {"lora": ["lora"], "2stage": ["embeddings+head", "lora"], "2x2": ["bottom-top"]}


@pytest.mark.parametrize("name", [name for name in LOWRES if name != "lowres-lapt"])
def test_vocabulary_expansion(name):
    run = compose("sw", "llama-2-7b", name)
    expected = int(name.partition("-k")[2]) if "-k" in name else 100
    found = (run.tokenizer.strategy, run.tokenizer.new_tokens, run.tokenizer.auxiliary_size)
    assert found == ("expand", expected, 50000)
    for phase in run.training.resolved():
        assert (phase.epochs, phase.batch_size, phase.learning_rate, phase.schedule) == (2, 8, 1e-4, "cosine")
        assert (phase.warmup_ratio, phase.weight_decay, phase.gradient_checkpointing) == (0.05, 0.01, True)
        if name not in GRID:
            assert (phase.trainable, phase.layers, phase.objective, phase.sequence_length) == (
                "bottom-top",
                2,
                "mtp",
                512,
            )


def test_the_training_strategies_of_vocabulary_expansion_are_all_there():
    expected = {
        f"lowres-{strategy}-{objective}-{length}"
        for strategy in STRATEGIES
        for objective in ("clm", "mtp")
        for length in (512, 2048)
    }
    assert set(GRID) == expected


@pytest.mark.parametrize("name", GRID)
def test_a_training_strategy_of_vocabulary_expansion(name):
    _, strategy, objective, length = name.split("-")
    run = compose("sw", "llama-2-7b", name)
    assert run.mapping.method == "align"
    phases = run.training.resolved()
    assert [phase.trainable for phase in phases] == STRATEGIES[strategy]
    for phase in phases:
        assert (phase.objective, phase.extra_heads, phase.sequence_length) == (objective, 1, int(length))
        if phase.trainable == "lora":
            assert (phase.lora.rank, phase.lora.alpha, phase.lora.dropout) == (8, 32, 0.05)


@pytest.mark.parametrize(
    ("name", "model", "like"),
    [
        ("lapt", "mistral-7b-v0.1", "trans-tokenization"),
        ("lowres-lapt", "llama-2-7b", "lowres-lora-clm-2048"),
        ("sava-lapt", "mistral-7b-v0.1", "fvt"),
        ("sava-lapt-llama-3.1", "llama-3.1-8b", "fvt-llama-3.1"),
    ],
)
def test_training_without_another_vocabulary(name, model, like):
    run = compose("it", model, name)
    assert run.tokenizer.strategy == "source"
    assert run.training == compose("it", model, like).training


def test_adapters_seeded_by_trans_tokenization():
    plain = load_recipe("trans-tokenization")
    for kind in ("sparse", "dense"):
        recipe = load_recipe(f"{kind}-adapter")
        assert (recipe.tokenizer, recipe.alignment, recipe.counts, recipe.mapping) == (
            plain.tokenizer, plain.alignment, plain.counts, plain.mapping,
        )  # fmt: skip
        first, second = recipe.training.resolved()
        assert (first.trainable, first.adapter.kind, first.steps) == ("adapter", kind, 2500)
        assert second == plain.training.resolved()[1]
    assert {phase.objective for phase in load_recipe("trans-tokenization-mtp").training.resolved()} == {"mtp"}


def test_phases_that_contradict_the_initial_model():
    with pytest.raises(ConfigError, match=r"trains adapters.*initial_model\.norms 'match' would not hold"):
        compose("eo", "tiny-english", "sparse-adapter", ["initial_model.norms=match"])
    with pytest.raises(ConfigError, match=r"trains the rows of new tokens, and tokenizer\.strategy 'source' has none"):
        compose("eo", "tiny-english", "lapt", ["training.phases.0.trainable=new-rows"])


def test_a_small_model_keeps_what_a_recipe_trains():
    """Its overrides are sizes; they do not make another method of it."""
    (phase,) = compose("eo", "tiny-english", "lowres-lora-mtp-512").training.resolved()
    assert (phase.trainable, phase.objective, phase.steps, phase.epochs) == ("lora", "mtp", 240, None)


@pytest.mark.parametrize(
    ("name", "model", "length", "batch", "steps"),
    [
        ("sava", "mistral-7b-v0.1", 2048, 3072, 2000),
        ("clp", "mistral-7b-v0.1", 2048, 3072, 2000),
        ("sava-random", "mistral-7b-v0.1", 2048, 3072, 2000),
        ("fvt", "mistral-7b-v0.1", 2048, 3072, 2000),
        ("sava-llama-3.1", "llama-3.1-8b", 8192, 512, 3000),
        ("fvt-llama-3.1", "llama-3.1-8b", 8192, 512, 3000),
    ],
)
def test_sava_and_its_baselines(name, model, length, batch, steps):
    run = compose("it", model, name)
    assert run.tokenizer.strategy == "existing"
    assert run.helper.repository.startswith("sapienzanlp/Minerva-3B")
    (phase,) = run.training.resolved()
    assert (phase.sequence_length, phase.batch_size, phase.steps, phase.trainable) == (length, batch, steps, "all")
    assert (phase.learning_rate, phase.mixture.shares) == (1e-5, {"target": 0.75, "source": 0.25})
    assert set(run.mixed) == {"source"}


def test_the_dutch_tables():
    run = compose("nl", "mistral-7b-v0.1", "tweety-dutch")
    assert (run.tokenizer.strategy, run.counts.min_count) == ("existing", 20)
    (phase,) = run.training.resolved()
    assert (phase.trainable, phase.learning_rate, phase.sequence_length, phase.batch_size) == ("all", 1e-4, 8192, 256)
    assert (phase.schedule, phase.warmup_steps) == ("linear", 300)
    assert phase.steps * phase.batch_size * phase.sequence_length == pytest.approx(8.5e9, rel=1e-3)


def test_the_armenian_tables():
    first, second = compose("hy", "mistral-7b-v0.1", "tweety-armenian").training.resolved()
    assert (first.steps, second.steps, second.schedule_steps) == (2500, 5000, 7500)
    assert second.steps * 32 * 512 == pytest.approx(82e6, rel=0.01)


@pytest.mark.parametrize(
    ("name", "languages", "alpha", "english"),
    [
        ("latin", "en sw id et ht", 0.0, 0.17),
        ("mixed", "en ko el ru bg", 0.1, 0.17),
        ("cyrillic", "en ru bg uk kk", 0.1, 0.17),
        ("all", "en sw id et ht ko el ru bg uk kk", 0.0, 0.1),
    ],
)
def test_vocadt_groups_fit_each_of_their_languages(name, languages, alpha, english):
    for language in languages.split():
        run = compose(language, "mistral-7b-v0.1", f"vocadt-{name}")
        assert {language, *run.tokenizer.group} == set(languages.split())
        assert set(run.group) == set(run.tokenizer.group)
        assert run.tokenizer.max_tokens_per_language == 2_000_000
        (phase,) = run.training.resolved()
        assert phase.mixture.fixed == {"target" if language == "en" else "en": english}
    assert load_recipe(f"vocadt-{name}").tokenizer.vocab_size == 50000
    assert (phase.trainable, phase.adapter.kind, phase.adapter.auxiliary) == ("adapter", "dense", alpha)
    assert (phase.learning_rate, phase.schedule, phase.warmup_ratio, phase.weight_decay) == (2e-6, "cosine", 0.01, 0.01)
    assert (phase.sequence_length, phase.batch_size) == (512, 128)
    assert (phase.steps, phase.tokens) == ((None, 5_500_000_000) if name == "all" else (38_000, None))
