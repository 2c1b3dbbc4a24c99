import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from configs.schema import (
    AlignmentConfig,
    BitextConfig,
    CorpusConfig,
    FileSource,
    Phase,
    PhaseConfig,
    SampleSource,
    TrainingConfig,
    key_fields,
    valid_code,
)


def file_source(**changes):
    return FileSource(**{"name": "news", "path": "a/news.txt", "format": "txt", **changes})


def test_unknown_keys_are_refused():
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        AlignmentConfig(iteration=3)


def test_a_configuration_cannot_be_changed():
    with pytest.raises(ValidationError, match="frozen"):
        AlignmentConfig().iterations = 3


def test_every_field_of_every_model_is_described():
    import configs.schema as schema

    models = [item for item in vars(schema).values() if isinstance(item, type) and issubclass(item, schema.Config)]
    assert len(models) > 20
    for model in models:
        for name, field in model.model_fields.items():
            assert field.description or name == "kind", f"{model.__name__}.{name}"


def test_the_key_leaves_out_paths_and_how_the_work_is_done():
    here = CorpusConfig(sources=(file_source(path="a/news.txt"),), memory_mib=128)
    there = CorpusConfig(sources=(file_source(path="b/other.txt"),), memory_mib=512)
    assert key_fields(here) == key_fields(there)
    assert key_fields(here) != key_fields(CorpusConfig(sources=(file_source(name="books"),)))


def test_the_key_of_a_phase_leaves_out_its_name_threads_and_log_interval():
    base = PhaseConfig(name="a", trainable="all", steps=3)
    other = PhaseConfig(name="b", trainable="all", steps=3, threads=1, log_every=7, checkpoint_every=2, device="cpu")
    assert key_fields(base) == key_fields(other)
    assert key_fields(base) != key_fields(base.model_copy(update={"learning_rate": 1.0}))


@pytest.mark.parametrize("path", ["/etc/passwd", "../secret", "a/../../b", ""])
def test_paths_stay_inside_the_data_root(path):
    with pytest.raises(ValidationError, match="relative path inside the data root"):
        file_source(path=path)


def test_a_moses_pair_has_two_files():
    with pytest.raises(ValidationError, match="target_path belong together"):
        file_source(format="moses")
    assert file_source(format="moses", target_path="a/news.eo").target_path == "a/news.eo"


def test_sources_have_different_names():
    with pytest.raises(ValidationError, match="source names must differ"):
        CorpusConfig(sources=(file_source(), file_source(path="b")))


def test_held_out_shares_leave_training_text():
    source = SampleSource(side="target", sentences=10)
    with pytest.raises(ValidationError, match="nothing would be left"):
        BitextConfig(sources=(source,), validation_share=0.5, test_share=0.5)


@pytest.mark.parametrize(
    ("code", "good"),
    [
        ("sw", True),
        ("zh-Hant", True),
        ("srp-Cyrl", True),
        ("en/us", False),
        ("EN", False),
        ("e", False),
        ("sw\n", False),
    ],
)
def test_language_codes(code, good):
    assert valid_code(code) is good


def training(steps, shares, **changes):
    phases = tuple(Phase(name=f"p{i}", trainable="all", share=share) for i, share in enumerate(shares))
    return TrainingConfig(steps=steps, phases=phases, **changes)


def test_the_tatar_recipe_divides_its_steps():
    assert [phase.steps for phase in training(6500, (2500, 4000)).resolved()] == [2500, 4000]
    assert [phase.steps for phase in training(200, (2500, 4000)).resolved()] == [77, 123]


@given(st.integers(3, 10_000), st.lists(st.floats(0.1, 100), min_size=1, max_size=3))
def test_phases_use_exactly_the_steps_there_are(steps, shares):
    resolved = training(steps, shares).resolved()
    exact = [steps * share / sum(shares) for share in shares]
    assert all(phase.steps >= 1 for phase in resolved)
    if min(exact) >= 1:
        assert sum(phase.steps for phase in resolved) == steps
        assert all(abs(phase.steps - value) < 1 for phase, value in zip(resolved, exact, strict=True))


def test_a_phase_takes_what_it_does_not_set_from_training():
    config = TrainingConfig(
        steps=10,
        learning_rate=0.5,
        warmup_steps=3,
        phases=(
            Phase(name="a", trainable="all"),
            Phase(name="b", trainable="all", learning_rate=0.1, schedule="cosine"),
        ),
    )
    first, second = config.resolved()
    assert (first.learning_rate, first.schedule, first.warmup_steps) == (0.5, "constant", 3)
    assert (second.learning_rate, second.schedule, second.warmup_steps) == (0.1, "cosine", 3)


def test_no_steps_means_no_phases():
    assert training(0, (1,)).resolved() == ()
