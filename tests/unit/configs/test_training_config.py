import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from configs.faults import ConfigError
from configs.load import compose
from configs.overrides import merged
from configs.schema import (
    AdapterConfig,
    LoraConfig,
    MixtureConfig,
    Phase,
    PhaseConfig,
    PretrainConfig,
    RunConfig,
    TrainingConfig,
    key_fields,
)

ALL = {"name": "a", "trainable": "all"}


def resolved(*phases, **section):
    return TrainingConfig(phases=phases or (ALL,), **section).resolved()


def refused(message, *phases, **section):
    with pytest.raises(ValidationError, match=message):
        resolved(*phases, **section)


def test_defaults_are_as_before():
    (phase,) = resolved()
    assert (phase.steps, phase.batch_size, phase.warmup_steps, phase.micro_batch_size) == (6500, 32, 75, 8)
    assert (phase.objective, phase.packing, phase.mixture, phase.validation) == ("clm", "plain", None, None)
    assert (phase.tokens, phase.epochs, phase.batch_tokens, phase.warmup_ratio) == (None,) * 4


@given(st.integers(1, 10**12), st.lists(st.floats(0.1, 100), min_size=1, max_size=4))
def test_tokens_and_epochs_are_divided_by_shares(tokens, shares):
    phases = tuple(Phase(**ALL, share=share) for share in shares)
    parts = [phase.tokens for phase in resolved(*phases, tokens=tokens)]
    assert all(part >= 1 for part in parts)
    assert abs(sum(parts) - tokens) <= len(parts)
    epochs = [phase.epochs for phase in resolved(*phases, epochs=tokens / 7)]
    assert sum(epochs) == pytest.approx(tokens / 7)


def test_a_phase_with_a_length_of_its_own_takes_none_of_the_sections():
    first, second, third = resolved({**ALL, "tokens": 5}, {**ALL, "share": 1}, {**ALL, "share": 3}, steps=100)
    assert (first.tokens, first.steps) == (5, None)
    assert (second.steps, third.steps) == (25, 75)
    own = resolved({**ALL, "epochs": 2}, {**ALL, "steps": 3})
    assert [(phase.steps, phase.epochs) for phase in own] == [(None, 2), (3, None)]
    assert resolved({**ALL, "epochs": 2}, steps=0) == ()


def test_one_length():
    refused("steps and epochs say the same thing in two ways: give one of steps, tokens, epochs", steps=5, epochs=1)
    refused("tokens and epochs say the same", {**ALL, "tokens": 5, "epochs": 1})
    refused("steps is divided among the phases, but every phase has a length of its own", {**ALL, "epochs": 2}, steps=5)
    with pytest.raises(ValidationError, match=r"phase 'a' has no length: give one of steps, tokens, epochs"):
        PhaseConfig(**ALL)


def test_batches_in_tokens():
    assert PhaseConfig(**ALL, steps=1, sequence_length=512, batch_tokens=16_500).rows_per_step == 32
    long, short = resolved({**ALL, "sequence_length": 2048}, {**ALL, "batch_size": 3}, batch_tokens=8192)
    assert (long.batch_size, long.batch_tokens, long.rows_per_step) == (4, None, 4)
    assert (short.batch_size, short.batch_tokens) == (3, None)
    refused("batch_size and batch_tokens say the same thing", batch_size=4, batch_tokens=512)
    refused("batch_tokens is 100, less than a sequence of 512 tokens", batch_tokens=100)
    refused("batch_tokens is 600, less than a sequence of 2048", {**ALL, "sequence_length": 2048}, batch_tokens=600)
    with pytest.raises(ValidationError, match="micro_batch_size is 0: give 1 or more, or 'auto'"):
        PhaseConfig(**ALL, steps=1, micro_batch_size=0)


def test_warm_up():
    (ratio, steps) = resolved(ALL, {**ALL, "warmup_steps": 5}, warmup_ratio=0.1)
    assert (ratio.warmup_ratio, ratio.warmup_steps) == (0.1, None)
    assert (steps.warmup_ratio, steps.warmup_steps) == (None, 5)
    refused("warmup_steps and warmup_ratio say the same thing", warmup_steps=4, warmup_ratio=0.1)
    assert PretrainConfig(steps=3).warmup_steps == 75


def test_what_is_added_goes_with_what_is_trained():
    (phase,) = resolved({**ALL, "trainable": "lora", "lora": {"rank": 4}})
    assert phase.lora == LoraConfig(rank=4, alpha=16.0, dropout=0.0)
    (phase,) = resolved({**ALL, "trainable": "adapter", "adapter": {"kind": "dense", "auxiliary": 0.1}})
    assert phase.adapter == AdapterConfig(kind="dense", auxiliary=0.1)
    refused("lora is set, but trainable is 'all': leave it out, or train 'lora'", {**ALL, "lora": {}})
    refused("adapter is set, but trainable is 'lora'", {**ALL, "trainable": "lora", "adapter": {}})
    refused(
        "nearest adds to the support of a sparse",
        {**ALL, "trainable": "adapter", "adapter": {"kind": "dense", "nearest": 2}},
    )
    refused(r"phases\.1 trains adapters, .*put it first", ALL, {**ALL, "trainable": "adapter"})
    refused("trains adapters with the objective 'mtp'", {**ALL, "trainable": "adapter"}, objective="mtp")


def test_a_setting_that_is_not_read_is_not_in_the_key():
    (plain,) = resolved()
    assert resolved(ALL, extra_heads=4) == (plain,), "of the section, for phases that may read it"
    saving = plain.model_copy(update={"gradient_checkpointing": True})
    assert key_fields(saving) == key_fields(plain)
    (mtp,) = resolved({**ALL, "objective": "mtp", "extra_heads": 4})
    assert mtp.extra_heads == 4


def test_a_setting_of_a_phase_that_it_does_not_read_is_refused():
    refused("layers is set, but trainable is 'all': leave it out", {**ALL, "layers": 3})
    refused(r"phases\.1 has extra_heads, but its objective is 'clm'", ALL, {**ALL, "extra_heads": 4})
    refused(r"phases\.0 has schedule_steps, but its schedule is constant", {**ALL, "schedule_steps": 10**6})


@pytest.mark.parametrize(
    ("mixture", "message"),
    [
        ({}, "give either shares .* or temperature"),
        ({"shares": {"target": 1}, "temperature": 2}, "give either"),
        ({"shares": {"target": 1}, "fixed": {"en": 0.5}}, "fixed goes with temperature"),
        ({"shares": {"source": 1}}, "must be above 0 and name 'target'"),
        ({"shares": {"target": 1, "source": 0}}, "must be above 0"),
        ({"temperature": 2, "fixed": {"en": 1.0}}, "their sum below 1, not 1"),
        ({"temperature": 2, "fixed": {"en": 0.0}}, "must be above 0"),
    ],
)
def test_mixtures_that_make_no_sense(mixture, message):
    with pytest.raises(ValidationError, match=message):
        MixtureConfig(**mixture)


def test_values_laid_over_say_it_in_their_own_way():
    """A model's `steps` over a recipe's `epochs`, and an override's over both."""
    recipe = TrainingConfig(phases=(ALL,), epochs=2, batch_tokens=1024, warmup_ratio=0.1).model_dump(mode="json")
    changed = merged({"training": recipe}, {"training": {"steps": 5, "warmup_steps": 1}}, RunConfig)["training"]
    config = TrainingConfig.model_validate(changed)
    assert (config.steps, config.epochs, config.warmup_steps, config.warmup_ratio) == (5, None, 1, None)
    assert config.batch_tokens == 1024
    overrides = ["training.tokens=4000", "training.batch_tokens=4096", "training.phases.0.warmup_ratio=0.5"]
    run = compose("eo", "tiny-english", "mean", overrides)
    first, second = run.training.resolved()
    assert (first.tokens, first.steps, first.batch_size) == (1538, None, 32)
    assert (first.warmup_ratio, first.warmup_steps, second.warmup_ratio) == (0.5, None, None)


def test_an_override_that_phases_hide_in_another_way():
    phases = "training.phases=[{name: a, trainable: all, warmup_ratio: 0.1}]"
    with pytest.raises(ConfigError, match=r"override training\.phases\.0\.warmup_ratio"):
        compose("eo", "tiny-english", "mean", [phases, "training.warmup_steps=5"])


def mixed(shares, *more):
    return compose("eo", "tiny-english", "mean", [f"training.mixture={shares}", *more])


def test_corpora_of_a_mixture():
    run = mixed("{shares: {target: 0.75, source: 0.25}}")
    assert run.mixed == {"source": run.model.corpus}
    run = mixed("{temperature: 5, fixed: {en: 0.2}}", "mixed.en.seed=7")
    assert run.mixed["en"].sources == run.model.corpus.sources
    assert run.mixed["en"].seed == 7
    assert set(mixed("{shares: {target: 1, sw: 1}}").mixed) == {"sw"}
    assert compose("eo", "tiny-english", "mean").mixed == {}
    with pytest.raises(ConfigError, match="the mixture of phase 'embeddings' names 'eo': call it 'target'"):
        mixed("{shares: {target: 1, eo: 1}}")
    with pytest.raises(ConfigError, match="no language named 'qq'"):
        mixed("{shares: {target: 1, qq: 1}}")
