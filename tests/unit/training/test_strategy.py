"""What every kind of phase trains, what it leaves alone to the bit, and what it hands back to be saved."""

import json

import numpy as np
import pyarrow as pa
import pytest
import torch
import transformers
from safetensors.numpy import save_file
from transformers import AutoModelForCausalLM

from configs.schema import PhaseConfig
from storage.tables import write_table
from tasks.contract import InputError
from tasks.training.adapter_fit import fitted
from tasks.training.adapter_start import take_special_tokens
from tasks.training.adapter_support import dense_start
from tasks.training.lora import linear_layers
from tasks.training.objective import step_loss
from tasks.training.packed_attention import PackedAttention
from tasks.training.strategy import prepare

OLD, NEW, WIDTH, LAYERS = 40, 24, 16, 5
LLAMA = {"hidden_size": WIDTH, "intermediate_size": 28, "num_hidden_layers": LAYERS, "num_attention_heads": 2}
SHAPE = {**LLAMA, "num_key_value_heads": 1, "max_position_embeddings": 32, "pad_token_id": None}
FAMILIES = {
    "llama": ("Llama", {**SHAPE, "tie_word_embeddings": False}),
    "llama-tied": ("Llama", {**SHAPE, "tie_word_embeddings": True}),
    "gpt2-tied": ("GPT2", {"n_positions": 32, "n_embd": WIDTH, "n_layer": LAYERS, "n_head": 2}),
    "gemma-tied": ("Gemma", {**SHAPE, "head_dim": 8}),
    "gemma3-scales-rows": ("Gemma3Text", {**SHAPE, "head_dim": 8}),
    "phi-bias": ("Phi", {**SHAPE, "num_key_value_heads": 2, "tie_word_embeddings": False}),
}
LORA = ["llama", "llama-tied", "gpt2-tied", "gemma-tied", "phi-bias"]
KINDS = {
    "embeddings": {},
    "embeddings+head": {},
    "bottom-top": {"layers": 2},
    "all": {},
    "new-rows": {},
    "lora": {"lora": {"rank": 2, "alpha": 4, "dropout": 0.1}},
    "adapter": {"adapter": {"kind": "sparse", "nearest": 2, "draws": 3, "auxiliary": 0.1}},
}


def assert_saved_as_an_ordinary_model(model, folder):
    """Plain transformers loads what is saved, with nothing missing or left over, and gives the same logits."""
    model.save_pretrained(folder)
    again, info = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert not info["mismatched_keys"]
    torch.testing.assert_close(again.eval()(tokens()).logits, model(tokens()).logits, rtol=0, atol=1e-6)


def with_objectives(families):
    """Every family with one objective, the first with both."""
    first, *rest = families
    turns = [(family, ("mtp", "clm")[turn % 2]) for turn, family in enumerate(rest)]
    return [(first, "clm"), (first, "mtp"), *turns]


def build(family, rows=NEW):
    name, values = FAMILIES[family]
    config = getattr(transformers, f"{name}Config")(
        **values, vocab_size=rows, bos_token_id=1, eos_token_id=2, attn_implementation="eager"
    )
    kind = {"Gemma3Text": "Gemma3ForCausalLM", "GPT2": "GPT2LMHeadModel"}.get(name, f"{name}ForCausalLM")
    with torch.random.fork_rng():
        torch.manual_seed(5)
        model = getattr(transformers, kind)(config)
        for parameter in model.parameters():  # biases and norms away from 0 and 1
            parameter.data += 0.1 * torch.randn(parameter.shape)
    return model.eval()


def phase(trainable, **values):
    return PhaseConfig(name="phase", trainable=trainable, steps=3, device="cpu", **{**KINDS[trainable], **values})


def tokens(seed=0):
    return torch.from_numpy(np.random.default_rng(seed).integers(0, NEW, size=(2, 9)))


def take_step(prepared, optimizer, seed=0):
    batch = tokens(seed)
    with prepared.step():
        losses = prepared.objective(batch)
        loss = step_loss(losses, losses.predictions)
        if prepared.extra_loss is not None:
            loss = loss + prepared.extra_loss()
        loss.backward()
    optimizer.step()
    if prepared.after_step is not None:
        prepared.after_step()
    return loss.item()


def make_optimizer(prepared, decay=0.5):
    assert prepared.no_decay <= prepared.parameters.keys()
    decayed = [p for name, p in prepared.parameters.items() if name not in prepared.no_decay]
    rest = [prepared.parameters[name] for name in prepared.no_decay]
    groups = [{"params": decayed, "weight_decay": decay}, {"params": rest, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=1e-2)


def train(prepared, steps=3):
    prepared.objective.train()
    optimizer = make_optimizer(prepared)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        for step in range(steps):
            optimizer.zero_grad(set_to_none=True)
            take_step(prepared, optimizer, step)
    return prepared.finish().eval()


def write_mapping_files(folder, rows, origins, source_size=OLD, dense=None):
    """`rows`: for each target token its (source, weight) pairs."""
    folder.mkdir()
    entries = [(t, s, w) for t, row in enumerate(rows) for s, w in row]
    target, source, weight = zip(*entries, strict=True)
    columns = {
        "target_id": pa.array(target, pa.int32()),
        "source_id": pa.array(source, pa.int32()),
        "weight": pa.array(weight, pa.float64()),
    }
    write_table(pa.table(columns), folder / "mapping.parquet")
    write_table(pa.table({"origin": list(origins)}), folder / "tokens.parquet")
    sizes = {"target_size": len(rows), "source_size": source_size, "uncovered": None}
    (folder / "mapping.json").write_text(json.dumps(sizes))
    if dense is not None:
        save_file(dense, folder / "dense.safetensors")
    return folder


COPIED = [0, 1, 2, 5, 9, 11]


@pytest.fixture
def mapping(tmp_path):
    """Tokens 0-2 special, 5 and 9 shared, 11 identical; 4 identical with other partners; 6 has one (translated)."""
    rng = np.random.default_rng(2)
    rows = [
        [(int(s), w) for s, w in zip(rng.choice(OLD, 2, replace=False), (0.25, 0.75), strict=True)] for _ in range(NEW)
    ]
    origins = ["aligned"] * NEW
    for token in COPIED:
        rows[token] = [(token + 7, 1.0)]
        origins[token] = "special" if token < 3 else "identical" if token == 11 else "shared"
    origins[4] = "identical"
    rows[6] = [(3, 1.0)]
    return write_mapping_files(tmp_path / "mapping", rows, origins)


def names_of(model, wanted):
    """Names in `model` of the parameters for which `wanted` is true."""
    return {name for name, _ in model.named_parameters() if wanted(name)}


def layers_of(names, numbers):
    return {n for n in names if any(f"layers.{i}." in n or f"transformer.h.{i}." in n for i in numbers)}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "adapter"])
@pytest.mark.parametrize(("family", "objective"), with_objectives(FAMILIES))
def test_gradients_are_there_for_what_is_trained_and_nowhere_else(family, kind, objective, mapping):
    prepared = prepare(build(family), phase(kind, objective=objective, extra_heads=2), mapping)
    losses = prepared.objective(tokens())
    step_loss(losses, losses.predictions).backward()
    everything = dict(prepared.objective.named_parameters())
    assert set(prepared.parameters) == {name for name, p in everything.items() if p.requires_grad}
    assert all(everything[name] is parameter for name, parameter in prepared.parameters.items())
    assert {name for name, p in everything.items() if p.grad is not None} == set(prepared.parameters)
    heads = {name for name in prepared.parameters if name.startswith("extra_heads.")}
    wanted = {f"extra_heads.{i}.{part}" for i in (0, 1) for part in ("weight", "bias")[: 1 + (family == "phi-bias")]}
    assert heads == (wanted if objective == "mtp" else set())
    assert list(prepared.parameters) == list(
        prepare(build(family), phase(kind, objective=objective, extra_heads=2), mapping).parameters
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_bottom_top_is_two_layers_at_each_end_embeddings_and_head(family):
    """Norms inside those layers, and no other norm or position embedding."""
    model = build(family)
    names = {name for name, _ in model.named_parameters()}
    prepared = prepare(model, phase("bottom-top"), None)
    ends = {n for n in names if "embed_tokens" in n or "wte" in n or "lm_head" in n}
    expected = ends | layers_of(names, (0, 1, LAYERS - 2, LAYERS - 1))
    assert set(prepared.parameters) == {f"model.{name}" for name in expected}
    assert prepared.no_decay == {name for name, p in prepared.parameters.items() if p.ndim == 1}


@pytest.mark.parametrize("kind", ["bottom-top", "all", "new-rows", "embeddings"])
@pytest.mark.parametrize(("family", "objective"), with_objectives(FAMILIES))
def test_only_these_change_and_the_saved_model_is_an_ordinary_one(tmp_path, family, kind, objective, mapping):
    before = {name: value.clone() for name, value in build(family).state_dict().items()}
    model = build(family)
    names = {f"model.{name}": name for name, _ in model.named_parameters()}
    prepared = prepare(model, phase(kind, objective=objective), mapping)
    trained = {names[name] for name in prepared.parameters if name in names}
    done = train(prepared)
    after = done.state_dict()
    assert list(after) == list(before)
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    if kind == "new-rows":
        new = np.setdiff1d(np.arange(NEW), COPIED)
        table, head = done.get_input_embeddings().weight, done.get_output_embeddings()
        for now, then in (
            (table, build(family).get_input_embeddings().weight),
            (head.weight, build(family).get_output_embeddings().weight),
        ):
            assert torch.equal(now[COPIED], then[COPIED])
            assert bool((now[new] != then[new]).any(dim=1).all())
        assert (head.weight is table) == ("tied" in family or family.startswith("gemma"))
        vocabulary = {name for name in before if before[name].shape[:1] == (NEW,)}
        assert changed == vocabulary
    else:
        tied_head = (
            {"lm_head.weight"} if done.get_output_embeddings().weight is done.get_input_embeddings().weight else set()
        )
        assert changed - tied_head == trained
    assert_saved_as_an_ordinary_model(done, tmp_path / "saved")


def test_new_rows_are_trained_as_in_the_whole_table(mapping):
    """Without weight decay, the rows move exactly as when all rows are trained and only theirs have gradients."""
    new = np.setdiff1d(np.arange(NEW), COPIED)
    split, whole = (
        prepare(build("llama"), phase("new-rows"), mapping),
        prepare(build("llama"), phase("embeddings+head"), None),
    )
    optimizers = [make_optimizer(prepared, decay=0.0) for prepared in (split, whole)]
    for step in range(3):
        losses = [
            take_step(prepared, optimizer, step) for prepared, optimizer in zip((split, whole), optimizers, strict=True)
        ]
        for optimizer in optimizers:
            optimizer.zero_grad()
        with torch.no_grad():  # the other rows as they were
            for name, parameter in whole.parameters.items():
                parameter[COPIED] = dict(prepare(build("llama"), phase("embeddings+head"), None).parameters)[name][
                    COPIED
                ]
        assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    one, other = split.finish(), whole.finish()
    for table in ("get_input_embeddings", "get_output_embeddings"):
        torch.testing.assert_close(
            getattr(one, table)().weight[new], getattr(other, table)().weight[new], rtol=1e-4, atol=1e-6
        )


def test_new_rows_need_rows(tmp_path, mapping):
    with pytest.raises(InputError, match="needs the mapping"):
        prepare(build("llama"), phase("new-rows"), None)
    copies = write_mapping_files(tmp_path / "copies", [[(i, 1.0)] for i in range(NEW)], ["shared"] * NEW)
    with pytest.raises(InputError, match="nothing to train: every token"):
        prepare(build("llama"), phase("new-rows"), copies)
    with pytest.raises(InputError, match="token 23, but the model has 20 rows"):
        prepare(build("llama", rows=20), phase("new-rows"), mapping)


@pytest.mark.parametrize(("family", "objective"), with_objectives(LORA))
def test_lora(tmp_path, family, objective):
    before = {name: value.clone() for name, value in build(family).state_dict().items()}
    model = build(family)
    logits = model(tokens()).logits
    linear = set(linear_layers(model))
    assert len(linear) == LAYERS * {"llama": 7, "llama-tied": 7, "gemma-tied": 7, "gpt2-tied": 4, "phi-bias": 6}[family]
    state = torch.get_rng_state()
    prepared = prepare(model, phase("lora", objective=objective), None)
    assert torch.equal(state, torch.get_rng_state())
    pairs = {name for name in prepared.parameters if "lora_A" in name or "lora_B" in name}
    assert len(pairs) == 2 * len(linear)
    ends = {name for name in prepared.parameters if name not in pairs and not name.startswith("extra_heads")}
    tied = model.get_output_embeddings().weight is model.get_input_embeddings().weight
    assert {prepared.parameters[name].shape[0] for name in ends} == {NEW}
    assert len(ends) == (1 if tied else 3 if family == "phi-bias" else 2)
    prepared.objective.eval()
    torch.testing.assert_close(prepared.objective.model(input_ids=tokens()).logits, logits)  # nothing has changed yet

    done = train(prepared)
    adapted = {f"{name}.weight" for name in linear}
    changed = {name for name, value in done.state_dict().items() if not torch.equal(value, before[name])}
    vocabulary = {name for name in before if before[name].shape[:1] == (NEW,)}
    assert list(done.state_dict()) == list(before)
    assert changed == adapted | vocabulary
    assert type(done) is type(build(family))
    assert (done.get_output_embeddings().weight is done.get_input_embeddings().weight) == tied
    assert_saved_as_an_ordinary_model(done, tmp_path / "saved")
    assert not list((tmp_path / "saved").glob("adapter*"))


def test_weights_that_lora_does_not_reach_are_named(caplog):
    """Experts kept as one tensor each for both projections and their biases, and the router."""
    prepare(build("llama"), phase("lora"), None)
    assert not caplog.records
    shape = {"hidden_size": 32, "intermediate_size": 16, "head_dim": 16, "num_local_experts": 4}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 1, "num_experts_per_tok": 2}
    prepare(
        transformers.GptOssForCausalLM(transformers.GptOssConfig(vocab_size=NEW, **shape, **heads)), phase("lora"), None
    )
    experts, attention = 4 * 32 * 32 + 4 * 16 * 32 + 4 * 32 + 4 * 32 + 4 * 32, 2 * 32 * 32 + 2 * 16 * 32
    share = 100 * experts / (experts + attention)
    assert "5 weights of the decoder layers, which are in no linear layer and stay as they are: 0.mlp" in caplog.text
    assert f"({share:.1f}% of the layers' numbers)" in caplog.text


@pytest.mark.parametrize("family", ["llama", "gpt2-tied"])
def test_merged_lora_computes_what_was_trained(family):
    prepared = prepare(build(family), phase("lora", lora={"rank": 3}), None)
    optimizer = make_optimizer(prepared)
    for step in range(3):
        take_step(prepared, optimizer, step)
    logits = prepared.objective.eval().model(input_ids=tokens()).logits
    torch.testing.assert_close(prepared.finish().eval()(tokens()).logits, logits, rtol=1e-4, atol=1e-5)


def test_lora_begins_alike_for_a_seed():
    first, again, other = (prepare(build("llama"), phase("lora", seed=seed), None).parameters for seed in (1, 1, 2))
    assert list(first) == list(again)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("family", FAMILIES)
def test_adapters_begin_as_the_mapping_and_end_as_an_ordinary_model(tmp_path, family, kind, mapping):
    source = build(family, rows=OLD)
    body = {n: p.detach().clone() for n, p in source.named_parameters() if p.shape[0] != OLD}
    config = phase("adapter", adapter={"kind": kind, "auxiliary": 0.1})
    prepared = prepare(source, config, mapping)
    side = {"dense": "matrix", "sparse": "values"}[kind]
    assert list(prepared.parameters) == [f"model.input_adapter.{side}", f"model.output_adapter.{side}"]
    assert prepared.no_decay == frozenset()
    assert prepared.extra_loss().item() == 0.0
    start = prepare(build(family, rows=OLD), config, mapping).finish()
    rows = dense_start(*rows_of(mapping), 0)
    scale = {"rtol": 1e-5, "atol": 1e-6}
    torch.testing.assert_close(
        start.get_input_embeddings().weight, rows @ build(family, rows=OLD).get_input_embeddings().weight, **scale
    )
    torch.testing.assert_close(
        start.get_output_embeddings().weight, rows @ build(family, rows=OLD).get_output_embeddings().weight, **scale
    )

    prepared.objective.train()
    optimizer = make_optimizer(prepared, decay=0.0)
    for step in range(3):
        optimizer.zero_grad()
        take_step(prepared, optimizer, step)
    assert prepared.extra_loss().item() > 0
    everything = dict(prepared.objective.named_parameters())
    assert {name for name, p in everything.items() if p.grad is not None} == set(prepared.parameters)
    prepared.objective.eval()
    logits = prepared.objective.model(tokens()).logits
    done = prepared.finish().eval()
    torch.testing.assert_close(done(tokens()).logits, logits, rtol=1e-4, atol=1e-4)
    assert all(torch.equal(p, body[n]) for n, p in done.named_parameters() if n in body)

    initial = build(family)
    initial.config.bos_token_id, initial.config.eos_token_id, initial.config.pad_token_id = 3, [4, 5], None
    initial.config.save_pretrained(tmp_path / "initial")
    take_special_tokens(done, tmp_path / "initial")
    assert (done.config.bos_token_id, done.config.eos_token_id, done.config.vocab_size) == (3, [4, 5], NEW)
    assert_saved_as_an_ordinary_model(done, tmp_path / "saved")


def rows_of(folder):
    from tasks.embeddings.mapping_files import read_mapping

    loaded, _ = read_mapping(folder)
    return loaded.rows, loaded.source_size


def test_support_of_a_sparse_adapter(tmp_path, mapping):
    rows, _ = rows_of(mapping)
    plain = prepare(build("llama", rows=OLD), phase("adapter", adapter={"kind": "sparse"}), mapping)
    wide = prepare(build("llama", rows=OLD), phase("adapter", adapter={"kind": "sparse", "nearest": 3}), mapping)
    assert plain.extra_loss is None
    before, after = (p.objective.model.input_adapter for p in (plain, wide))
    assert len(before.values) == len(rows.ids)
    counts = after.offsets.diff()
    assert counts.min() >= 3
    assert counts.max() <= 5
    assert torch.count_nonzero(after.values) == len(rows.ids)  # what is added begins at 0
    table = plain.objective.model.model.get_input_embeddings().weight
    torch.testing.assert_close(after.product(table), before.product(table))


def test_rows_without_sources(tmp_path):
    rows = [[(i, 1.0)] for i in range(NEW - 2)] + [[], []]
    folder = write_mapping_files(tmp_path / "mapping", rows, ["shared"] * (NEW - 2) + ["random", "random"])
    with pytest.raises(InputError, match=r"2 new tokens no source tokens.*adapter\.draws"):
        prepare(build("llama", rows=OLD), phase("adapter", adapter={"draws": 0, "nearest": 2}), folder)
    sparse = prepare(build("llama", rows=OLD), phase("adapter", adapter={"kind": "sparse", "draws": 4}), folder)
    assert sparse.objective.model.input_adapter.offsets.diff().tolist()[-2:] == [4, 4]
    dense = prepare(build("llama", rows=OLD), phase("adapter", adapter={"kind": "dense"}), folder)
    drawn = dense.objective.model.input_adapter.matrix[-1]
    assert drawn.sum().item() == pytest.approx(1.0)
    assert bool((drawn > 0).all())
    with pytest.raises(InputError, match="40 source tokens, but LlamaForCausalLM has 24 rows"):
        prepare(build("llama"), phase("adapter", adapter={"kind": "dense"}), folder)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_rows_given_as_numbers_are_met_as_nearly_as_old_rows_can(tmp_path, kind, tied):
    family = "llama-tied" if tied else "llama"
    source = build(family, rows=OLD)
    tables = [source.get_input_embeddings().weight.detach(), source.get_output_embeddings().weight.detach()]
    mixed = [0.7 * table[3:5] + 0.3 * table[8:10] for table in tables]
    dense = {"rows": np.array([1, 4]), "input": mixed[0].numpy()} | ({} if tied else {"head": mixed[1].numpy()})
    rows = [[(i, 1.0)] for i in range(NEW)]
    origins = ["shared"] * NEW
    for token in (1, 4):
        rows[token], origins[token] = [], "sava"
    folder = write_mapping_files(tmp_path / "mapping", rows, origins, dense=dense)
    done = prepare(source, phase("adapter", adapter={"kind": kind}), folder).finish()
    torch.testing.assert_close(done.get_input_embeddings().weight[[1, 4]], mixed[0], rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(done.get_output_embeddings().weight[[1, 4]], mixed[1], rtol=1e-3, atol=1e-3)


def test_fitted_rows_by_hand():
    old = torch.tensor([[2.0, 0, 0], [0, 1, 0], [0, 0, 1], [2.0, 0, 0]])
    found = fitted(torch.tensor([[1.0, 3.0, 0.0], [4.0, 0.0, 0.1]]), old, 2)
    assert found.ids.reshape(2, 2).tolist() == [[0, 1], [0, 3]] or found.ids.reshape(2, 2).tolist() == [[1, 3], [0, 3]]
    values = dict(zip(found.ids[:2].tolist(), found.weights[:2].tolist(), strict=True))
    assert values.pop(1) == pytest.approx(3.0, abs=1e-4)
    assert next(iter(values.values())) == pytest.approx(0.5, abs=1e-4)
    assert found.weights[2:].tolist() == pytest.approx([1.0, 1.0], abs=1e-4)  # equal old rows share the weight


@pytest.mark.parametrize("kind", KINDS)
def test_packed_rows_are_taken(kind, mapping):
    model = build("llama", rows=OLD if kind == "adapter" else NEW)
    prepared = prepare(model, phase(kind), mapping)
    assert PackedAttention(prepared.base).method == "positions"


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_can_be_moved_and_restored(kind, mapping):
    """What a checkpoint does: values written into another preparation of the same phase give the same losses."""
    rows = OLD if kind == "adapter" else NEW
    trained, fresh = (prepare(build("llama", rows=rows), phase(kind), mapping) for _ in range(2))
    optimizer = make_optimizer(trained)
    for step in range(2):
        take_step(trained, optimizer, step)
    assert list(trained.parameters) == list(fresh.parameters)
    with torch.no_grad():
        for name, parameter in fresh.parameters.items():
            parameter.copy_(trained.parameters[name])
    one, other = (prepared.objective.eval()(tokens()).summed for prepared in (trained, fresh))
    assert torch.equal(one, other)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_under_autocast_are_those_of_float32_but_for_rounding(kind, mapping):
    gradients = []
    for enabled in (False, True):
        prepared = prepare(build("llama", rows=OLD if kind == "adapter" else NEW), phase(kind), mapping)
        prepared.objective.eval()
        with prepared.step():
            with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
                losses = prepared.objective(tokens())
            step_loss(losses, losses.predictions).backward()
        gradients.append([p.grad.flatten() for p in prepared.parameters.values()])
        assert {p.grad.dtype for p in prepared.parameters.values()} == {torch.float32}
    exact, rounded = (torch.cat(parts) for parts in gradients)
    assert torch.nn.functional.cosine_similarity(exact, rounded, dim=0).item() > 0.99
