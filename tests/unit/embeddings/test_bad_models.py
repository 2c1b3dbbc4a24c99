"""Source models that cannot be used are refused by the stage, with the reason."""

import json

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from tasks.contract import InputError
from tasks.embeddings.stored_model import open_model

INDEX = "model.safetensors.index.json"


@pytest.fixture
def refused(build, tmp_path):
    """Asserts that the stage refuses its inputs with a message that fits the pattern."""

    def check(inputs, match, **config):
        with pytest.raises(InputError, match=match):
            build.run(inputs, tmp_path / "out", **config)

    return check


def edit(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def test_no_configuration_or_an_unknown_one(model_inputs, refused):
    inputs = model_inputs()
    config = inputs["source_model"] / "config.json"
    edit(config, lambda values: values.update(model_type="nothing"))
    refused(inputs, r"config\.json cannot be read.*nothing")
    config.unlink()
    refused(inputs, r"has no config\.json; give the folder of a Hugging Face model")


def test_a_model_that_writes_no_text(model_inputs, refused):
    inputs = model_inputs()
    transformers.ViTConfig().save_pretrained(str(inputs["source_model"]))
    refused(inputs, r"config\.json gives no causal language model")


def test_pickled_weights(model_inputs, refused):
    inputs = model_inputs()
    folder = inputs["source_model"]
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    refused(inputs, r"no \.safetensors weights.*found: pytorch_model\.bin\); pickled weights are not loaded: convert")
    (folder / "pytorch_model.bin").unlink()
    refused(inputs, "found: no weights")


def test_missing_shards(model_inputs, refused):
    inputs = model_inputs(shard="8KB")
    shards = sorted(inputs["source_model"].glob("model-*.safetensors"))
    shards[1].unlink()
    refused(inputs, rf"lacks 1 of {len(shards)} weight files named in {INDEX} \({shards[1].name}\)")


@pytest.mark.parametrize(
    "name", ["../secret.safetensors", "/etc/hostname", "sub/model.safetensors", "..", "a\\b.safetensors", "x.bin", 7]
)
def test_an_index_that_leaves_the_folder(model_inputs, refused, name):
    inputs = model_inputs(shard="8KB")
    (inputs["source_model"].parent / "secret.safetensors").write_bytes(b"")
    edit(inputs["source_model"] / INDEX, lambda index: index["weight_map"].update({"lm_head.weight": name}))
    refused(inputs, r"places 'lm_head\.weight' in .*only \.safetensors files in the model's own folder are read")


def test_an_index_that_does_not_fit(model_inputs, refused):
    inputs = model_inputs(shard="8KB")
    index = inputs["source_model"] / INDEX
    content = index.read_text()
    edit(index, lambda values: values["weight_map"].update({"new.weight": values["weight_map"]["lm_head.weight"]}))
    refused(inputs, r"places 'new\.weight' in .*which does not hold it")
    index.write_text("[1]")
    refused(inputs, "is no index of weights")
    index.write_text('{"weight_map": {}}')
    refused(inputs, "names no weights")
    index.write_text(content)
    shards = sorted(inputs["source_model"].glob("model-*.safetensors"))
    both = load_file(shards[0]) | load_file(shards[1])
    save_file(both, shards[1], {"format": "pt"})
    refused(inputs, r"is both in model-00001-.* and in model-00002-")


@pytest.mark.parametrize("damage", ["truncate", "header", "empty"])
def test_damaged_files(model_inputs, refused, damage):
    inputs = model_inputs()
    path = inputs["source_model"] / "model.safetensors"
    content = path.read_bytes()
    path.write_bytes({"truncate": content[:-100], "header": b"\xff" * 8 + content[8:], "empty": b""}[damage])
    refused(inputs, "is damaged .*; copy or download it again")


def stored(inputs, change):
    path = inputs["source_model"] / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, {"format": "pt"})


def test_missing_tables_and_tensors(model_inputs, refused):
    inputs = model_inputs()
    stored(inputs, lambda tensors: tensors.pop("model.layers.0.mlp.up_proj.weight"))
    refused(inputs, r"has no weights for model\.layers\.0\.mlp\.up_proj\.weight")
    stored(inputs, lambda tensors: tensors.pop("lm_head.weight"))
    refused(inputs, r"has no weights for lm_head\.weight \(the LM head\)")


def test_tables_of_another_model(model_inputs, refused):
    inputs = model_inputs()
    stored(inputs, lambda tensors: tensors.update({"lm_head.weight": tensors["lm_head.weight"][:100].contiguous()}))
    refused(inputs, r"'lm_head\.weight' \(the LM head\) is stored as \[100, 16\], config\.json makes it \[380, 16\]")


def test_quantised_tables(model_inputs, refused):
    inputs = model_inputs()
    stored(inputs, lambda tensors: tensors.update({"lm_head.weight": tensors["lm_head.weight"].to(torch.int8)}))
    refused(inputs, r"'lm_head\.weight' is stored as I8; quantised tables cannot be averaged")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize(
    ("tensor", "what"), [("model.embed_tokens.weight", "input embeddings"), ("lm_head.weight", "LM head")]
)
def test_source_embeddings_that_are_not_finite(model_inputs, refused, tensor, what, value):
    inputs = model_inputs()
    stored(inputs, lambda tensors: tensors[tensor][3, 5].fill_(value))
    refused(inputs, f"row 3 of the {what} is not finite; its weights are damaged")


def test_other_weights_that_are_not_numbers(model_inputs, refused):
    inputs = model_inputs()
    stored(inputs, lambda tensors: tensors["model.norm.weight"][2].fill_(float("nan")))
    refused(inputs, r"'model\.norm\.weight' holds NaN")
    stored(inputs, lambda tensors: tensors["model.norm.weight"][2].fill_(float("inf")))
    refused(inputs, "verification failed: forward pass: logits are NaN or infinite")


def test_tokens_added_to_the_tokenizer_and_not_to_the_model(model_inputs, build, refused):
    mapping = build.some_mapping(source=383, seed=1)
    beyond = np.unique(mapping.source_ids[mapping.source_ids >= 380])
    assert len(beyond) == 3
    refused(
        model_inputs(mapping),
        r"rows in the (input embeddings|LM head): 380; .*tokens were added to the source tokenizer and never to the "
        r"model: the mapping reads source tokens 380, 381, 382 for \d+ new tokens",
    )


def test_added_tokens_that_nothing_is_made_of_do_no_harm(model_inputs, build, tmp_path):
    mapping = build.some_mapping()
    wider = type(mapping)(
        mapping.indptr, mapping.source_ids, mapping.weights, 390, mapping.origin, mapping.origin_names
    )
    assert build.run(model_inputs(wider), tmp_path / "out").summary["vocab_size"] == 400


def test_a_mapping_of_another_tokenizer(model_inputs, tokenizers, refused):
    inputs = model_inputs()
    refused({**inputs, "tokenizer": tokenizers["english"]}, "the mapping has 400 rows, the tokenizer 380 tokens")


def test_a_model_with_more_tables_over_its_vocabulary(model_inputs, refused, monkeypatch):
    """As Gemma 3n's embeddings for each layer."""
    inputs = model_inputs()
    original = transformers.LlamaModel.__init__

    def widened(self, config):
        original(self, config)
        self.per_layer = torch.nn.Embedding(config.vocab_size, 4)

    monkeypatch.setattr(transformers.LlamaModel, "__init__", widened)
    refused(inputs, r"more tables over its vocabulary .*per_layer\.weight")


def test_a_damaged_file_of_dense_rows(model_inputs, refused):
    inputs = model_inputs()
    path = inputs["mapping"] / "dense.safetensors"
    path.write_bytes(b"nothing")
    refused(inputs, r"dense\.safetensors is damaged")
    save_file({"rows": torch.tensor([3, 3]), "input": torch.ones(2, 16)}, path)
    refused(inputs, "does not hold ascending ids below 400")
    bad = torch.full((1, 16), float("nan"))
    save_file({"rows": torch.tensor([3]), "input": bad, "head": bad.clone()}, path)
    refused(inputs, r"the rows '(input|head)' in dense\.safetensors are no finite table")
    save_file({"rows": torch.tensor([3, 4, 5]), "input": torch.ones(2, 16), "head": torch.ones(2, 16)}, path)
    refused(inputs, r"dense\.safetensors has 3 ids and 2 rows '(input|head)'; build the mapping again")


def test_quantised_models(model_inputs, refused):
    inputs = model_inputs()
    quantised = {"quantization_config": {"quant_method": "gptq", "bits": 4}}
    edit(inputs["source_model"] / "config.json", lambda values: values.update(quantised))
    refused(inputs, r"the weights in 'source' are quantised \(.*gptq\); take the version of the model in float32")


def test_damaged_configurations(model_inputs, refused):
    inputs = model_inputs()
    (inputs["source_model"] / "generation_config.json").write_text("{")
    refused(inputs, r"generation_config\.json cannot be read")
    (inputs["source_model"] / "config.json").write_text("[1]")
    refused(inputs, r"source model: .*config\.json cannot be read")


@pytest.mark.skipif(not hasattr(transformers, "Gemma3nTextConfig"), reason="transformers has no Gemma 3n")
def test_gemma_3n(tmp_path):
    """Its embeddings for each layer have a vocabulary size of their own in config.json."""
    config = transformers.Gemma3nTextConfig(
        vocab_size=40, vocab_size_per_layer_input=36, hidden_size=16, intermediate_size=16, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, head_dim=8, hidden_size_per_layer_input=4, altup_num_inputs=2,
        layer_types=["full_attention"] * 2, activation_sparsity_pattern=[0.0] * 2, num_kv_shared_layers=0,
        laurel_rank=2,
    )  # fmt: skip
    config.save_pretrained(str(tmp_path))
    save_file({"x": torch.ones(1)}, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(InputError, match=r"^helper model: Gemma3n.* more tables .*embed_tokens_per_layer"):
        open_model(tmp_path, "helper model")
