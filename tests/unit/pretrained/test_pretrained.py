"""Folders opened with transformers: what is refused, and that there is one place for it."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.utils import logging

import tasks.pretrained
from tasks.contract import InputError
from tasks.pretrained import (
    copy_tokenizer,
    empty_model,
    load_backend,
    load_causal_model,
    load_config,
    load_generation_config,
    load_tokenizer,
)

ROOT = Path(tasks.pretrained.__file__).parents[1]


@pytest.fixture
def folder(tmp_path):
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=12, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=16,
    )  # fmt: skip
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(tmp_path)
    words = Tokenizer(models.WordLevel({"<unk>": 0, "a": 1}, unk_token="<unk>"))
    words.enable_truncation(1)
    PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>").save_pretrained(tmp_path)
    return tmp_path


def test_a_model_is_read_in_the_format_asked_for(folder):
    shown = logging.is_progress_bar_enabled()
    for dtype, expected in (("auto", torch.bfloat16), (torch.float32, torch.float32)):
        model = load_causal_model(folder, "model", dtype)
        assert {parameter.dtype for parameter in model.parameters()} == {expected}
        assert not model.training
    assert logging.is_progress_bar_enabled() is shown


def test_missing_weights_are_not_drawn(folder):
    """transformers draws them and warns."""
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.0.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(InputError, match=r"^helper: .* has no weights for model\.layers\.0\.mlp\.up_proj\.weight$"):
        load_causal_model(folder, "helper")


def test_damaged_weights(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(InputError, match=r"^model: .* cannot be loaded: "):
        load_causal_model(folder, "model")
    path.unlink()
    with pytest.raises(InputError, match=r"needs config\.json and safetensors weights; save the model with"):
        load_causal_model(folder, "model")


@pytest.mark.parametrize("content", ["{", "[1]", '{"model_type": "nothing"}', '{"auto_map": {"AutoConfig": "x.Y"}}'])
def test_configurations_that_cannot_be_read(folder, content):
    (folder / "config.json").write_text(content)
    with pytest.raises(InputError, match=r"^source model: .*config\.json cannot be read: ") as caught:
        load_config(folder, "source model")
    assert ("needs Python code of its own, which is not run" in str(caught.value)) is ("auto_map" in content)


@pytest.mark.parametrize("content", ["{", "[1]"])
def test_generation_configs(folder, content):
    assert load_generation_config(folder, "model").eos_token_id is not None
    (folder / "generation_config.json").write_text(content)
    with pytest.raises(InputError, match=r"^model: .*generation_config\.json cannot be read: "):
        load_generation_config(folder, "model")
    (folder / "generation_config.json").unlink()
    assert load_generation_config(folder, "model") is None


def test_an_empty_model_has_no_weights_and_leaves_its_config(folder):
    config = load_config(folder, "model")
    before = config.to_dict()
    model = empty_model(config, "model")
    assert {parameter.device.type for parameter in model.parameters()} == {"meta"}
    assert config.to_dict() == before


def test_tokenizers(folder, tmp_path_factory):
    assert load_tokenizer(folder, "tokenizer").get_vocab() == {"<unk>": 0, "a": 1}
    assert load_backend(folder, "tokenizer").truncation is None
    out = tmp_path_factory.mktemp("copy")
    copy_tokenizer(folder, out)
    assert sorted(path.name for path in out.iterdir()) == sorted(
        path.name for path in folder.iterdir() if "token" in path.name
    )
    (folder / "tokenizer.json").write_text(json.dumps({}))
    for load in (load_tokenizer, load_backend):
        with pytest.raises(InputError, match=r"^target tokenizer: .* cannot be read"):
            load(folder, "target tokenizer")


def test_folders_are_opened_in_one_place():
    files = [path for package in ("tasks", "flows", "storage") for path in (ROOT / package).rglob("*.py")]
    calling = [path.relative_to(ROOT).as_posix() for path in files if ".from_pretrained(" in path.read_text()]
    assert calling == ["tasks/pretrained.py"]
