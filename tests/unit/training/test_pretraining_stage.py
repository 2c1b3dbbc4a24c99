import json

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from configs.schema import ArchitectureConfig, PretrainConfig
from tasks.contract import InputError, StageContext
from tasks.training.architecture import build_llama
from tasks.training.pretraining_stage import STAGE
from tasks.training.text_encoder import TextEncoder

SHAPE = ArchitectureConfig(hidden_size=32, intermediate_size=48, layers=2, heads=2, key_value_heads=1, max_positions=32)


def pretrain(place, corpus, tokenizer, **values):
    config = PretrainConfig(
        **{
            "architecture": SHAPE,
            "steps": 12,
            "sequence_length": 16,
            "batch_size": 4,
            "learning_rate": 1e-2,
            "warmup_steps": 1,
            "device": "cpu",
            "threads": 1,
            **values,
        }
    )
    for name in ("out", "work"):
        (place / name).mkdir(parents=True)
    result = STAGE.run(StageContext(config, {"corpus": corpus, "tokenizer": tokenizer}, place / "out", place / "work"))
    return {file.name: file.read_bytes() for file in (place / "out").iterdir()}, result


def test_makes_a_model(tmp_path, corpus_folder, tokenizer_folder):
    files, result = pretrain(tmp_path, corpus_folder, tokenizer_folder)
    out = tmp_path / "out"
    config = json.loads(files["config.json"])
    vocabulary = TextEncoder(tokenizer_folder).size
    assert (config["vocab_size"], config["bos_token_id"], config["eos_token_id"]) == (vocabulary, 1, 2)
    assert (config["max_position_embeddings"], config["num_hidden_layers"]) == (32, 2)
    assert {tensor.dtype for tensor in load_file(out / "model.safetensors").values()} == {torch.float32}
    assert files["tokenizer.json"] == (tokenizer_folder / "tokenizer.json").read_bytes()
    assert AutoModelForCausalLM.from_pretrained(out).generation_config.eos_token_id == 2
    assert result.summary["parameters_trained"] == result.summary["parameters"]
    assert result.summary["final_loss"] < 5.0


def test_same_bytes_whatever_the_global_random_state(tmp_path, corpus_folder, tokenizer_folder):
    torch.manual_seed(1)
    first, _ = pretrain(tmp_path / "one", corpus_folder, tokenizer_folder)
    torch.manual_seed(2)
    torch.rand(5)
    state = torch.get_rng_state()
    second, _ = pretrain(tmp_path / "two", corpus_folder, tokenizer_folder)
    assert first == second
    assert torch.equal(torch.get_rng_state(), state)
    third, _ = pretrain(tmp_path / "three", corpus_folder, tokenizer_folder, seed=1)
    assert third["model.safetensors"] != first["model.safetensors"]


def test_tied(tmp_path, corpus_folder, tokenizer_folder):
    pretrain(tmp_path, corpus_folder, tokenizer_folder, architecture=SHAPE.model_copy(update={"tied": True}))
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"heads": 3}, "hidden_size 32 over 3 heads"),
        ({"heads": 32, "key_value_heads": 1}, "even whole number"),
        ({"key_value_heads": 4, "heads": 2}, "heads 2 must be a multiple of key_value_heads 4"),
    ],
)
def test_shape_is_checked(tokenizer_folder, change, message):
    with pytest.raises(InputError, match=message):
        build_llama(SHAPE.model_copy(update=change), TextEncoder(tokenizer_folder), 0)


def test_too_few_positions(tmp_path, corpus_folder, tokenizer_folder):
    with pytest.raises(InputError, match="the model has 32 positions"):
        pretrain(tmp_path, corpus_folder, tokenizer_folder, sequence_length=40)
