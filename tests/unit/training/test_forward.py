import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, OPTConfig, OPTForCausalLM

from tasks.contract import InputError
from tasks.training.forward import ForwardPass, checkpoint_activations, packing_method
from tasks.training.packed_batch import Batch
from tasks.training.strategy import prepare
from tasks.training.trainable import decoder_layers


def gpt2():
    return GPT2LMHeadModel(GPT2Config(vocab_size=304, n_positions=64, n_embd=32, n_layer=3, n_head=2))


def opt():
    shape = {"hidden_size": 32, "ffn_dim": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
    return OPTForCausalLM(OPTConfig(vocab_size=304, max_position_embeddings=64, word_embed_proj_dim=32, **shape))


def batch():
    """Two rows: documents of 5 and 3 tokens and 2 of padding; one document of 10."""
    tokens = np.random.default_rng(0).integers(3, 300, size=(2, 10))
    documents = np.array([[0] * 5 + [1] * 3 + [-1] * 2, [2] * 10])
    positions = np.array([[*range(5), *range(3), *range(2)], [*range(10)]])
    return Batch(tokens, documents, positions)


def gradients(model, config, micro, saving=False):
    prepared = prepare(model, config, None)
    prepared.objective.train()
    calls = []
    inside = next(decoder_layers(model)[0].children())  # some versions of transformers repeat a layer without its hooks
    inside.register_forward_pre_hook(lambda *args: calls.append(1))
    if saving:
        checkpoint_activations(prepared.base)
    method = packing_method(prepared.base, "documents", bfloat16=False)
    calls.clear()
    predictions, summed = ForwardPass(prepared.objective, method, False, micro).gradients(batch())
    return predictions, summed, {name: p.grad for name, p in prepared.parameters.items()}, len(calls)


@pytest.mark.parametrize("family", ["llama", "gpt2", "opt"])
@pytest.mark.parametrize("trainable", ["all", "lora"])
def test_activations_are_computed_twice_and_gradients_are_the_same(make_llama, make_phase, family, trainable):
    torch.manual_seed(0)
    model = {"llama": make_llama, "gpt2": gpt2, "opt": opt}[family]()
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    found = []
    for saving in (False, True):
        torch.manual_seed(1)
        twin = type(model)(model.config)
        twin.load_state_dict(state)
        torch.manual_seed(2)  # for dropout, which the second pass must repeat
        found.append(gradients(twin, make_phase(trainable=trainable), 2, saving))
    (_, summed, plain, once), (_, again, saved, twice) = found
    assert (once, twice) == (1, 2)
    assert torch.equal(summed, again)
    assert all(torch.equal(plain[name], saved[name]) for name in plain)


def test_documents_by_themselves(make_llama, make_phase):
    """The packed batch's loss is the sum of what the documents give one by one; padding predicts nothing."""
    predictions, summed, _, _ = gradients(make_llama(), make_phase(), 1)
    given, model = batch(), make_llama()
    parts = [given.tokens[0, :5], given.tokens[0, 5:8], given.tokens[1]]
    losses = [model(input_ids=t[None], labels=t[None]).loss * (t.numel() - 1) for t in map(torch.from_numpy, parts)]
    assert predictions.tolist() == [4 + 2 + 9]
    torch.testing.assert_close(summed[0], sum(losses).detach(), rtol=1e-5, atol=1e-5)


def test_a_model_without_checkpointing():
    with pytest.raises(InputError, match="Linear has no gradient checkpointing: set gradient_checkpointing to false"):
        checkpoint_activations(torch.nn.Linear(2, 2))
