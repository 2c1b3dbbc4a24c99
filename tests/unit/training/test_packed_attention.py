"""Packed rows give every document the losses that it has alone, in every family and every kind of attention."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch.nn import functional
from transformers import AutoConfig, AutoModelForCausalLM

from tasks.contract import InputError
from tasks.training.lm_head import base_model
from tasks.training.objective import Objective, labels_ahead
from tasks.training.packed_attention import PackedAttention, model_batch
from tasks.training.packed_batch import PADDING, Batch

CPU = torch.device("cpu")
COMMON = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "initializer_range": 0.3,  # attention that makes a difference
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GPT2 = {"vocab_size": 97, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "initializer_range": 0.3}
FAMILIES = {
    "llama": COMMON,
    "mistral": {**COMMON, "sliding_window": 6},
    "gemma": COMMON,
    "gemma2": {**COMMON, "sliding_window": 6},
    "gemma3_text": {**COMMON, "sliding_window": 6},
    "gpt2": {**GPT2, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0},
    "qwen2": COMMON,
    "qwen3": COMMON,
    "gpt_neox": {**COMMON, "head_dim": None},
    "opt": {**COMMON, "ffn_dim": 48, "word_embed_proj_dim": 32},
}
CAPPED = ("gemma2", "sdpa")  # sdpa cannot bound attention's scores: transformers 5 refuses, 4 leaves it out
LENGTHS = [[7, 1, 12, 9, 3], [32], [20, 4], [2, 2, 2, 2, 2, 22]]


def make_model(family, attention="sdpa", **settings):
    config = AutoConfig.for_model(family, **{**FAMILIES.get(family, {}), **settings})
    with torch.random.fork_rng():
        torch.manual_seed(5)
        return AutoModelForCausalLM.from_config(config, attn_implementation=attention).eval()


def make_batch(lengths, length=32, seed=0):
    """Random documents of `lengths` tokens in rows; padding where they do not fill one."""
    generator, number = np.random.default_rng(seed), 0
    shape = (len(lengths), length)
    tokens, documents = np.zeros(shape, dtype=np.int64), np.full(shape, PADDING, dtype=np.int64)
    positions = np.zeros(shape, dtype=np.int64)
    for row, sizes in enumerate(lengths):
        column = 0
        for size in sizes:
            tokens[row, column : column + size] = generator.integers(3, 97, size)
            documents[row, column : column + size] = number
            positions[row, column : column + size] = np.arange(size)
            column, number = column + size, number + 1
        positions[row, column:] = np.arange(length - column)
    return Batch(tokens, documents, positions)


def packed_losses(model, batch, method):
    """Summed loss of each document, from the packed rows: [documents] float64."""
    given = model_batch(batch, method, CPU)
    losses = Objective(model).token_losses(given.tokens, given.documents, **given.inputs).flatten().double()
    documents = torch.from_numpy(batch.documents.flatten())
    used = documents != PADDING
    return torch.zeros(int(documents.max()) + 1, dtype=torch.float64).index_add(0, documents[used], losses[used])


def packed_loss(model, batch, method):
    """Summed loss of the whole batch, with gradients."""
    given = model_batch(batch, method, CPU)
    return Objective(model)(given.tokens, given.documents, **given.inputs).summed.sum()


def method_of(model):
    return PackedAttention(base_model(model)).method


def losses_alone(model, batch):
    """Summed loss of each document, each through the model by itself: [documents] float64."""
    losses = []
    for number in range(int(batch.documents.max()) + 1):
        tokens = torch.from_numpy(batch.tokens[batch.documents == number])[None]
        logits = model(input_ids=tokens, use_cache=False).logits[0, :-1].double()
        losses.append(functional.cross_entropy(logits, tokens[0, 1:], reduction="sum"))
    return torch.stack(losses)


@pytest.mark.parametrize(
    ("family", "attention"),
    [(family, attention) for family in FAMILIES for attention in ("sdpa", "eager") if (family, attention) != CAPPED],
)
def test_losses_of_documents_are_those_they_have_alone(family, attention):
    model, batch = make_model(family, attention), make_batch(LENGTHS)
    method = method_of(model)
    assert method == ("mask" if family == "opt" else "positions")
    with torch.no_grad():
        packed, alone = packed_losses(model, batch, method), losses_alone(model, batch)
    assert len(alone) == 14
    torch.testing.assert_close(packed, alone, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("family", ["llama", "gpt2", "opt"])
def test_gradients_are_those_of_the_documents_alone(family):
    model, batch = make_model(family), make_batch(LENGTHS)
    gradients = []
    for loss in (packed_loss(model, batch, method_of(model)), losses_alone(model, batch).sum()):
        model.zero_grad()
        loss.backward()
        gradients.append({name: p.grad.clone() for name, p in model.named_parameters()})
    for name, expected in gradients[1].items():
        torch.testing.assert_close(gradients[0][name], expected, rtol=1e-4, atol=1e-4 * max(1, expected.abs().max()))


def test_padding_takes_no_part():
    model, batch = make_model("llama"), make_batch([[5, 6], [20]])
    packed_loss(model, batch, "positions").backward()
    assert model.get_input_embeddings().weight.grad[0].abs().max() == 0


def test_explicit_mask_as_positions():
    model, batch = make_model("llama", "eager"), make_batch(LENGTHS)
    with torch.no_grad():
        torch.testing.assert_close(packed_losses(model, batch, "mask"), packed_losses(model, batch, "positions"))


def test_without_packing_losses_differ():
    """What the other tests would not notice if attention made no difference in these models."""
    model, batch = make_model("llama"), make_batch(LENGTHS)
    tokens = torch.from_numpy(batch.tokens)
    with torch.no_grad():
        logits = model(input_ids=tokens, use_cache=False).logits
        losses = functional.cross_entropy(logits.flatten(0, 1), labels_ahead(tokens, 0).flatten(), reduction="none")
        alone = losses_alone(model, batch)
    third = losses.view(tokens.shape)[0, 8:19].sum()
    assert abs(third - alone[2]) > 0.1


def test_inputs_by_hand():
    batch = make_batch([[2, 3], [1, 4, 1]], length=6)
    positions = [[0, 1, 0, 1, 2, 0], [0, 0, 1, 2, 3, 0]]
    by_position = model_batch(batch, "positions", CPU)
    assert by_position.documents.tolist() == [[1, 1, 2, 2, 2, -1], [4, 5, 5, 5, 5, 6]]
    assert {name: value.tolist() for name, value in by_position.inputs.items()} == {"position_ids": positions}
    by_length = model_batch(batch, "lengths", CPU)
    assert by_length.tokens.tolist() == [batch.tokens.flatten().tolist()]
    assert by_length.documents.tolist() == [by_position.documents.flatten().tolist()]
    assert by_length.inputs["cu_seq_lens_q"].tolist() == [0, 2, 5, 6, 7, 11, 12]
    assert by_length.inputs["cu_seq_lens_k"].dtype == torch.int32
    assert (by_length.inputs["max_length_q"], by_length.inputs["max_length_k"]) == (4, 4)
    mask = model_batch(batch, "mask", CPU).inputs["attention_mask"]
    assert (mask.shape, mask.dtype) == ((2, 1, 6, 6), torch.float32)
    seen = [[1, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0]]
    assert (mask[0, 0, :3] == 0).int().tolist() == seen
    assert labels_ahead(by_length.tokens, 0, by_length.documents)[0, [1, 4, 5, 11]].tolist() == [-100] * 4


@pytest.mark.parametrize("method", ["positions", "lengths", "mask"])
def test_rows_of_one_document_need_nothing(method):
    """A mask of ones says so, but for flash attention, which would take the rows apart by it."""
    given = model_batch(make_batch([[16], [16]], length=16), method, CPU)
    assert given.inputs.keys() == (set() if method == "lengths" else {"attention_mask"})
    assert all(torch.equal(mask, torch.ones(2, 16, dtype=torch.int64)) for mask in given.inputs.values())
    assert given.tokens.shape == (2, 16)


def attend_by_lengths(module, query, key, value, attention_mask, scaling=None, **given):
    """Stands in for flash attention's kernel for several lengths: sdpa on one document after another."""
    assert attention_mask is None
    groups = query.shape[1] // key.shape[1]
    key, value = (tensor.repeat_interleave(groups, dim=1) for tensor in (key, value))
    ends = given.get("cu_seq_lens_q", torch.tensor([0, query.shape[2]])).tolist()
    parts = [
        functional.scaled_dot_product_attention(
            query[:, :, first:last], key[:, :, first:last], value[:, :, first:last], is_causal=True, scale=scaling
        )
        for first, last in pairwise(ends)
    ]
    return torch.cat(parts, dim=2).transpose(1, 2).contiguous(), None


@pytest.fixture
def flash_attention(monkeypatch):
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS as MASKS
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS as FUNCTIONS

    monkeypatch.setitem(FUNCTIONS._global_mapping, "flash_of_the_test", attend_by_lengths)
    monkeypatch.setitem(MASKS._global_mapping, "flash_of_the_test", MASKS["flash_attention_2"])
    return "flash_of_the_test"


@pytest.mark.parametrize("family", ["llama", "gemma", "gpt2", "qwen2", "qwen3"])
def test_lengths_reach_the_kernel(family, flash_attention):
    model, batch = make_model(family), make_batch(LENGTHS)
    with torch.no_grad():
        alone = losses_alone(model, batch)
        model.config._attn_implementation = flash_attention
        method = method_of(model)
        packed = packed_losses(model, batch, method)
    assert method == "lengths"
    torch.testing.assert_close(packed, alone, rtol=1e-5, atol=1e-5)


def test_models_that_mix_documents_are_refused():
    """A recurrent model carries its state from document to document."""
    mamba = make_model("mamba", vocab_size=97, hidden_size=16, num_hidden_layers=1, state_size=4, attention="eager")
    with pytest.raises(InputError, match=r"MambaModel with attention .* use plain packing"):
        method_of(mamba)


def test_trying_leaves_the_model_as_it_was():
    model = make_model("llama", attention_dropout=0.5).train()
    model.model.layers[0].eval()
    before = {name: module.training for name, module in model.named_modules()}
    state = torch.get_rng_state()
    assert method_of(model) == "positions"
    assert {name: module.training for name, module in model.named_modules()} == before
    assert torch.equal(torch.get_rng_state(), state)
    assert all(parameter.grad is None for parameter in model.parameters())
