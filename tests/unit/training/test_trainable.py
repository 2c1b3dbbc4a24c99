import pytest
import torch
from safetensors.torch import load_file
from transformers import GPT2Config, GPT2LMHeadModel

from tasks.contract import InputError
from tasks.pretrained import load_causal_model
from tasks.training.trainable import decoder_layers, select_trainable

EMBEDDINGS, HEAD = {"model.embed_tokens.weight"}, {"lm_head.weight"}


def layer(model, index):
    return {name for name, _ in model.named_parameters() if name.startswith(f"model.layers.{index}.")}


@pytest.mark.parametrize("tied", [False, True])
def test_exactly_the_right_parameters(make_llama, tied):
    model = make_llama(tied=tied, layers=5)
    head = set() if tied else HEAD
    everything = {name for name, _ in model.named_parameters()}
    outer = layer(model, 0) | layer(model, 1) | layer(model, 3) | layer(model, 4)
    expected = {
        "embeddings": EMBEDDINGS,
        "embeddings+head": EMBEDDINGS | head,
        "bottom-top": EMBEDDINGS | head | outer,
        "all": everything,
    }
    assert "model.norm.weight" not in expected["bottom-top"]
    for mode, names in expected.items():
        assert set(select_trainable(model, mode, 2)) == names
        assert {name for name, p in model.named_parameters() if p.requires_grad} == names


def test_ends_that_meet_are_every_layer(make_llama):
    model = make_llama(layers=3)
    expected = EMBEDDINGS | HEAD | layer(model, 0) | layer(model, 1) | layer(model, 2)
    assert set(select_trainable(model, "bottom-top", 2)) == expected
    assert set(select_trainable(model, "bottom-top", 3)) == expected
    with pytest.raises(InputError, match="layers is 4, but the model has 3 decoder layers"):
        select_trainable(model, "bottom-top", 4)


def test_other_families():
    model = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=16, n_embd=8, n_layer=3, n_head=2))
    assert len(decoder_layers(model)) == 3
    assert "transformer.wpe.weight" not in select_trainable(model, "embeddings+head", 1)
    with pytest.raises(InputError, match=r"decoder layers of Linear.*transformer\.h"):
        decoder_layers(torch.nn.Linear(2, 2))


@pytest.mark.parametrize("mode", ["embeddings", "embeddings+head", "bottom-top", "all"])
@pytest.mark.parametrize("tied", [False, True])
def test_only_these_change(tmp_path, make_model_folder, make_phase, run_training, mode, tied):
    folder = make_model_folder(tied=tied, layers=4)
    done = run_training(tmp_path, folder, make_phase(trainable=mode, layers=1, steps=2))
    before, after = (load_file(place / "model.safetensors") for place in (folder, done.out))
    assert before.keys() == after.keys()
    trained = set(select_trainable(load_causal_model(folder, "model"), mode, 1))
    assert {name for name in before if not torch.equal(before[name], after[name])} == trained
    assert done.result.summary["parameters_trained"] == sum(before[name].numel() for name in trained)
