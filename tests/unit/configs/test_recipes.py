"""The shipped recipes: one for every initialiser, with the papers' values, each value's source named."""

from typing import get_args

import pytest

from configs.load import available, compose, load_recipe
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


@pytest.mark.parametrize("name", [name for name in RECIPES if name.startswith("lowres-")])
def test_vocabulary_expansion(name):
    run = compose("sw", "llama-2-7b", name)
    expected = int(name.partition("-k")[2]) if "-k" in name else 100
    assert (run.tokenizer.strategy, run.tokenizer.new_tokens, run.tokenizer.auxiliary_size) == (
        "expand",
        expected,
        50000,
    )
    (phase,) = run.training.resolved()
    assert (phase.trainable, phase.layers, phase.batch_size, phase.sequence_length) == ("bottom-top", 2, 8, 512)
    assert (phase.learning_rate, phase.schedule, phase.steps) == (1e-4, "cosine", 1600)


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
    assert phase.learning_rate == 1e-5


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
    ("name", "languages"),
    [("latin", "en sw id et ht"), ("mixed", "en ko el ru bg"), ("cyrillic", "en ru bg uk kk")],
)
def test_vocadt_groups_fit_each_of_their_languages(name, languages):
    for language in languages.split():
        run = compose(language, "mistral-7b-v0.1", f"vocadt-{name}")
        assert {language, *run.tokenizer.group} == set(languages.split())
        assert set(run.group) == set(run.tokenizer.group)
        assert run.tokenizer.max_tokens_per_language == 2_000_000
        assert run.training.resolved() == ()  # adapters cannot be trained yet
    assert load_recipe(f"vocadt-{name}").tokenizer.vocab_size == 50000
