import json

import pytest

from configs.load import compose
from flows.model_limits import ModelLimits, check_phases, model_limits
from tasks.contract import InputError


def run(*overrides, model="tiny-english"):
    return compose("eo", model, "trans-tokenization", overrides)


def test_a_built_model_says_its_sizes(tmp_path):
    assert model_limits(run(), tmp_path) == ModelLimits(512, 4)


@pytest.mark.parametrize(
    ("config", "limits"),
    [
        ({"max_position_embeddings": 64, "num_hidden_layers": 3}, ModelLimits(64, 3)),
        ({"n_positions": 32, "n_layer": 2}, ModelLimits(32, 2)),
        ({"max_position_embeddings": None}, ModelLimits()),
        ([], ModelLimits()),
    ],
)
def test_a_folder_says_them_in_config_json(tmp_path, config, limits):
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert model_limits(run(model=str(tmp_path)), tmp_path) == limits


def test_a_model_on_the_hub_is_not_asked(tmp_path):
    assert model_limits(run(model="mistral-7b-v0.1"), tmp_path) == ModelLimits()


def test_what_fits_is_let_through():
    check_phases(run("training.sequence_length=512", "training.phases.1.layers=4"), ModelLimits(512, 4))
    check_phases(run("training.sequence_length=100000"), ModelLimits())


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.sequence_length=513", r"phases\.0 \(embeddings\): sequence_length is 513, .* has 512 positions"),
        ("training.phases.1.layers=5", r"phases\.1 \(outer-layers\): layers is 5, .* has 4 decoder layers"),
    ],
)
def test_what_does_not_fit_is_refused(override, message):
    with pytest.raises(InputError, match=message):
        check_phases(run(override), ModelLimits(512, 4))
