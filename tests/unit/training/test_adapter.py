"""The adapted model in several families: what it computes, what it trains, and what is left after the merge."""

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import nn

from tasks.contract import InputError
from tasks.embeddings.sparse_rows import SparseRows
from tasks.training.adapter import AdaptedModel
from tasks.training.adapter_dense import DenseAdapter
from tasks.training.adapter_ends import source_head
from tasks.training.adapter_objective import AdaptedObjective
from tasks.training.adapter_sparse import SparseAdapter
from tasks.training.lm_head import LMHead
from tasks.training.objective import Objective

OLD, NEW = 40, 23
SIZES = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
SHAPE = {"vocab_size": OLD, "num_key_value_heads": 1, "max_position_embeddings": 32, "pad_token_id": 0, **SIZES}
GPT2 = {"vocab_size": OLD, "n_positions": 32, "n_embd": 16, "n_layer": 2, "n_head": 2}
OPT = {"ffn_dim": 24, "word_embed_proj_dim": 8, "do_layer_norm_before": False}
FAMILIES = {
    "llama": ("Llama", {**SHAPE, "tie_word_embeddings": False}),
    "llama-tied": ("Llama", {**SHAPE, "tie_word_embeddings": True}),
    "gpt2-tied": ("GPT2", GPT2),
    "opt-projections": ("OPT", {**SHAPE, **OPT}),
    "gemma-scales-inside": ("Gemma", {**SHAPE, "head_dim": 8}),
    "gemma2-soft-cap": ("Gemma2", {**SHAPE, "head_dim": 8, "final_logit_softcapping": 0.5}),
    "gemma3-scales-rows": ("Gemma3Text", {**SHAPE, "head_dim": 8}),
    "cohere-logit-scale": ("Cohere", {**SHAPE, "logit_scale": 0.25}),
    "granite-logits-scaling": ("Granite", {**SHAPE, "logits_scaling": 4.0, "embedding_multiplier": 3.0}),
    "phi-bias": ("Phi", {**SHAPE, "num_key_value_heads": 2}),
    "qwen3": ("Qwen3", {**SHAPE, "head_dim": 8}),
}


def build(family: str):
    name, values = FAMILIES[family]
    config = getattr(transformers, {"Gemma3Text": "Gemma3TextConfig"}.get(name, f"{name}Config"))(**values)
    kind = {"Gemma3Text": "Gemma3ForCausalLM", "GPT2": "GPT2LMHeadModel"}.get(name, f"{name}ForCausalLM")
    with torch.random.fork_rng():
        torch.manual_seed(5)
        model = getattr(transformers, kind)(config)
        for parameter in model.parameters():  # biases and norms away from 0 and 1, logits of some size
            parameter.data += 0.1 * torch.randn(parameter.shape)
    return model.eval()


def some_rows(seed: int = 0, target: int = NEW, source: int = OLD) -> SparseRows:
    """1 to 4 entries a row, row 0 one-hot."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 5, size=target)
    counts[0] = 1
    ids = np.concatenate([rng.choice(source, size=count, replace=False) for count in counts])
    rows = SparseRows.from_coo(np.repeat(np.arange(target), counts), ids, rng.random(len(ids)) + 0.1, target)
    return rows.normalised()


def adapters(kind: str, **settings):
    make = {"sparse": SparseAdapter, "dense": DenseAdapter}[kind]
    return make(some_rows(1), OLD, **settings), make(some_rows(2), OLD, **settings)


def matrix_of(adapter) -> torch.Tensor:
    """A, by the definition of a product with the identity."""
    return adapter.product(torch.eye(adapter.source_size, dtype=next(adapter.parameters()).dtype))


def input_of_head(model, embedded: torch.Tensor) -> torch.Tensor:
    seen = []
    hook = model.get_output_embeddings().register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    model(inputs_embeds=embedded, use_cache=False)
    hook.remove()
    return seen[0]


@pytest.fixture
def ids():
    return torch.from_numpy(np.random.default_rng(3).integers(0, NEW, size=(3, 9)))


def shake(model: AdaptedModel) -> None:
    with torch.no_grad():
        for number, parameter in enumerate(model.adapter_parameters().values()):
            generator = torch.Generator().manual_seed(number)
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)


@pytest.mark.parametrize("kind", ["sparse", "dense"])
@pytest.mark.parametrize("family", FAMILIES)
def test_merged_equals_adapted(tmp_path, family, kind, ids):
    adapted = AdaptedModel(build(family), *adapters(kind)).eval()
    shake(adapted)
    loss = adapted(ids[:, :-1], ids[:, 1:]).loss
    logits = adapted(ids).logits
    merged = adapted.merge()
    assert logits.shape == (3, 9, NEW)
    torch.testing.assert_close(merged(ids).logits, logits, rtol=1e-4, atol=1e-4)
    wanted = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten(), reduction="sum")
    torch.testing.assert_close(loss, wanted, rtol=1e-5, atol=1e-5)
    assert not merged.config.tie_word_embeddings
    assert all(parameter.requires_grad for parameter in merged.parameters())
    merged.save_pretrained(tmp_path)
    again = type(merged).from_pretrained(tmp_path).eval()
    assert again.get_input_embeddings().weight.shape[0] == again.get_output_embeddings().weight.shape[0] == NEW
    torch.testing.assert_close(again(ids).logits, merged(ids).logits, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["sparse", "dense"])
@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_are_those_of_the_definition(family, kind, ids):
    """The same loss with A_in·E_in looked up and A_out·E_out as head, all dense, differentiated by autograd."""
    adapted = AdaptedModel(build(family).double(), *adapters(kind)).double()
    shake(adapted)
    model, head = adapted.model, source_head(adapted.model)
    adapted(ids[:, :-1], ids[:, 1:].where(ids[:, 1:] > 1, -100)).loss.backward()

    pair = (adapted.input_adapter, adapted.output_adapter)
    matrices = [matrix_of(adapter).detach().requires_grad_() for adapter in pair]
    scale = getattr(model.get_input_embeddings(), "embed_scale", 1.0)
    embedded = (matrices[0] @ model.get_input_embeddings().weight.detach())[ids[:, :-1]] * scale
    hidden = input_of_head(model, embedded)
    bias = None if head.bias is None else matrices[1] @ head.bias
    logits = LMHead(matrices[1] @ head.weight, bias, head.scale, head.softcap).logits(hidden).flatten(0, 1)
    labels = ids[:, 1:].flatten()
    nn.functional.cross_entropy(logits[labels > 1], labels[labels > 1], reduction="sum").backward()

    for adapter, matrix in zip(pair, matrices, strict=True):
        if kind == "dense":
            torch.testing.assert_close(adapter.matrix.grad, matrix.grad)
        else:
            rows = torch.repeat_interleave(torch.arange(NEW), adapter.offsets.diff())
            torch.testing.assert_close(adapter.values.grad, matrix.grad[rows, adapter.source_ids])
    assert all(parameter.grad is None for parameter in model.parameters())


def test_sparse_on_full_support_is_dense(ids):
    full = SparseRows.from_coo(*map(np.ravel, np.indices((NEW, OLD))), np.random.default_rng(4).random(NEW * OLD), NEW)
    shared = np.array([0, 5, 7])
    models = [
        AdaptedModel(build("llama"), kind(full, OLD, shared=shared), kind(full, OLD, shared=shared), alpha=0.3)
        for kind in (SparseAdapter, DenseAdapter)
    ]
    figures = []
    for model in models:
        optimizer = torch.optim.SGD(model.adapter_parameters().values(), lr=1e-3)
        for _ in range(3):
            optimizer.zero_grad()
            (model(ids[:, :-1], ids[:, 1:]).loss + model.auxiliary_loss()).backward()
            optimizer.step()
        figures.append([matrix_of(model.input_adapter), matrix_of(model.output_adapter), model(ids).logits])
        figures[-1].append(model.auxiliary_loss())
    for sparse, dense in zip(*figures, strict=True):
        torch.testing.assert_close(sparse, dense, rtol=1e-4, atol=1e-5)
    assert figures[0][-1] > 0


def test_one_hot_rows_are_the_model_itself(ids):
    """With the identity as both adapters nothing changes, tied model included."""
    model = build("gemma3-scales-rows")
    wanted = model(ids).logits
    same = SparseRows(np.arange(OLD + 1), np.arange(OLD, dtype=np.int32), np.ones(OLD))
    adapted = AdaptedModel(model, SparseAdapter(same, OLD), SparseAdapter(same, OLD))
    torch.testing.assert_close(adapted(ids).logits, wanted, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_only_adapters_train_and_names_bring_them_back(tmp_path, kind, ids):
    model = build("llama-tied")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    adapted = AdaptedModel(model, *adapters(kind))
    trained = adapted.adapter_parameters()
    name = {"sparse": "values", "dense": "matrix"}[kind]
    assert set(trained) == {f"input_adapter.{name}", f"output_adapter.{name}"}
    optimizer = torch.optim.AdamW(trained.values(), lr=1e-2)
    adapted(ids[:, :-1], ids[:, 1:]).loss.backward()
    optimizer.step()
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    save_file({name: value.detach() for name, value in trained.items()}, tmp_path / "adapters.safetensors")

    again = AdaptedModel(build("llama-tied"), *adapters(kind))
    with torch.no_grad():
        for name, value in load_file(tmp_path / "adapters.safetensors").items():
            again.adapter_parameters()[name].copy_(value)
    assert torch.equal(again(ids).logits, adapted(ids).logits)


@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_two_runs_give_the_same_bits(kind, ids):
    results = []
    for _ in range(2):
        adapted = AdaptedModel(build("llama"), *adapters(kind))
        adapted(ids[:, :-1], ids[:, 1:]).loss.backward()
        results.append([parameter.grad for parameter in adapted.adapter_parameters().values()])
    assert all(torch.equal(first, second) for first, second in zip(*results, strict=True))


def test_one_step_adds_the_gradients_of_its_parts(ids):
    wanted, kept = (AdaptedModel(build("phi-bias"), *adapters("sparse")) for _ in range(2))
    for part in ids:
        wanted(part[None, :-1], part[None, 1:]).loss.backward()
    with kept.one_step():
        for part in ids:
            kept(part[None, :-1], part[None, 1:]).loss.backward()
    for name, parameter in kept.adapter_parameters().items():
        torch.testing.assert_close(parameter.grad, wanted.adapter_parameters()[name].grad)
    with kept.one_step(), pytest.raises(KeyError):
        raise KeyError
    with torch.no_grad():
        kept.output_adapter.values += 1.0
    assert not torch.equal(kept(ids).logits, wanted(ids).logits)


@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_bfloat16_autocast_is_near(kind, ids):
    exact = AdaptedModel(build("llama"), *adapters(kind))
    half = AdaptedModel(build("llama"), *adapters(kind))
    exact(ids[:, :-1], ids[:, 1:]).loss.backward()
    with torch.autocast("cpu", torch.bfloat16):
        loss = half(ids[:, :-1], ids[:, 1:]).loss
    assert loss.dtype == torch.float32
    loss.backward()
    for name, parameter in half.adapter_parameters().items():
        wanted = exact.adapter_parameters()[name].grad
        assert (parameter.grad - wanted).norm() < 0.05 * wanted.norm()


@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_model_in_bfloat16(kind, ids):
    """Frozen weights in half precision, adapters in float32: the product is made in float32 and rounded once."""
    adapted = AdaptedModel(build("llama").bfloat16(), *adapters(kind))
    exact = AdaptedModel(build("llama"), *adapters(kind))
    for model in (adapted, exact):
        model(ids[:, :-1], ids[:, 1:]).loss.backward()
    table = adapted.model.get_input_embeddings().weight
    wanted = (matrix_of(adapted.input_adapter) @ table.float()).bfloat16()
    assert (adapted.input_adapter.product(table) != wanted).float().mean() < 0.02
    for name, parameter in adapted.adapter_parameters().items():
        wanted = exact.adapter_parameters()[name].grad
        assert (parameter.grad - wanted).norm() < 0.1 * wanted.norm()


def test_padding_id_of_the_old_vocabulary_is_an_ordinary_token():
    """The old padding id 0 has no gradient in the old table; as a new token, or as a place, it must."""
    adapted = AdaptedModel(build("llama"), *adapters("sparse"))
    assert adapted.model.get_input_embeddings().padding_idx == 0
    adapted.embed(torch.tensor([[0, 3]])).sum().backward()
    assert adapted.input_adapter.values.grad[0] != 0


def test_position_ids_and_mask_reach_the_model(ids):
    adapted = AdaptedModel(build("llama"), *adapters("sparse"))
    mask = torch.ones_like(ids)
    mask[:, :3] = 0
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    logits = adapted(ids, attention_mask=mask, position_ids=positions).logits
    torch.testing.assert_close(logits[:, 3:], adapted(ids[:, 3:]).logits, rtol=1e-4, atol=1e-5)


def other_of_size(target: int) -> SparseAdapter:
    return SparseAdapter(some_rows(target=target), OLD)


@pytest.mark.filterwarnings("ignore:.*activation_checkpointing_enable:FutureWarning")  # transformers 5 renames it
def test_gradient_checkpointing_changes_nothing(ids):
    results = []
    for recompute in (False, True):
        adapted = AdaptedModel(build("llama"), *adapters("sparse")).train()
        if recompute:
            adapted.model.gradient_checkpointing_enable({"use_reentrant": False})
        adapted(ids[:, :-1], ids[:, 1:]).loss.backward()
        results.append([parameter.grad for parameter in adapted.adapter_parameters().values()])
    for plain, recomputed in zip(*results, strict=True):
        torch.testing.assert_close(plain, recomputed)


def test_refusals():
    model, (first, second) = build("llama"), adapters("sparse")
    other = other_of_size(9)
    with pytest.raises(InputError, match="for 23 new tokens, the output adapter for 9"):
        AdaptedModel(model, first, other)
    large = SparseAdapter(some_rows(source=60), 60)
    with pytest.raises(InputError, match=r"output adapter reads 60 source tokens.*has 40 rows"):
        AdaptedModel(model, first, large)
    with pytest.raises(InputError, match=r"input adapter has no entry for 2 new tokens \(the first is 0\)"):
        AdaptedModel(model, SparseAdapter(SparseRows.from_coo([1], [1], [1.0], 3), OLD), other_of_size(3))

    class Odd(transformers.LlamaForCausalLM):
        def forward(self, *args, **kwargs):
            output = super().forward(*args, **kwargs)
            output.logits = output.logits + torch.arange(OLD)
            return output

    with pytest.raises(InputError, match="Odd does more with token ids or logits"):
        AdaptedModel(Odd(model.config), first, second)
    model.lm_head = None
    with pytest.raises(InputError, match="no linear LM head"):
        AdaptedModel(model, first, second)


@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_objective_is_that_of_the_merged_model(kind, ids):
    adapted = AdaptedModel(build("gemma2-soft-cap"), *adapters(kind)).eval()
    documents = torch.tensor([[0, 0, 0, 0, 1, 1, 1, -1, -1]]).expand(3, -1)
    losses = AdaptedObjective(adapted)(ids, documents)
    each = AdaptedObjective(adapted).token_losses(ids, documents)
    wanted = Objective(adapted.merge())
    for found, right in zip(losses, wanted(ids, documents), strict=True):
        torch.testing.assert_close(found, right, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(each, wanted.token_losses(ids, documents), rtol=1e-5, atol=1e-5)
    assert losses.predictions.tolist() == [15]
