"""Stage `initial-model`: the source model with another vocabulary."""

import hashlib
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AddedToken, AutoModelForCausalLM, AutoTokenizer

from storage.tables import write_table
from tasks.contract import InputError
from tasks.embeddings.dense_files import write_dense
from tasks.embeddings.dense_rows import DenseRows
from tasks.embeddings.initial_model import open_source
from tasks.embeddings.new_table import NewRows, new_table
from tasks.embeddings.safetensors_reader import read_shards
from tasks.embeddings.token_mapping import TokenMapping

SOURCE, TARGET = 380, 400
ENDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None}


def digests(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def weights(folder):
    found = {}
    for path in folder.glob("*.safetensors"):
        found |= load_file(path)
    return found


def replaced(folder, mapping, dtype="auto"):
    """The slow way: the model loaded whole, a dense matrix times each of its tables."""
    model = AutoModelForCausalLM.from_pretrained(str(folder), dtype=dtype)
    matrix = torch.zeros(mapping.shape, dtype=torch.float64)
    matrix[mapping.rows.row_of_entry(), mapping.source_ids.astype(np.int64)] = torch.from_numpy(mapping.weights)

    def made(table):
        return torch.nn.Parameter((matrix @ table.detach()[: mapping.source_size].double()).to(table.dtype))

    embeddings, head = model.get_input_embeddings(), model.get_output_embeddings()
    tied = embeddings.weight is head.weight
    embeddings.weight = made(embeddings.weight)
    head.weight = embeddings.weight if tied else made(head.weight)
    if head.bias is not None:
        head.bias = made(head.bias)
    return model.eval()


ONE_FILE, SEVERAL_FILES = "5GB", "8KB"
FAMILIES = [
    ("llama", False), ("llama", True), ("mistral", False), ("gemma", True), ("gemma2", True), ("qwen2", False),
    ("qwen2", True), ("qwen3", True), ("gpt2", True), ("gptj", False), ("phi", False),
]  # fmt: skip
IN_SEVERAL_FILES = [("llama", False), ("qwen2", True), ("phi", False)]


@pytest.mark.parametrize(
    ("family", "tied", "shard"),
    [(*case, ONE_FILE) for case in FAMILIES] + [(*case, SEVERAL_FILES) for case in IN_SEVERAL_FILES],
)
def test_equals_the_slow_way(build, model_inputs, tmp_path, family, tied, shard):
    mapping = build.some_mapping()
    given = model_inputs(mapping, family=family, tied=tied, shard=shard)
    result = build.run(given, tmp_path / "out")
    slow = replaced(given["source_model"], mapping)
    model, info = AutoModelForCausalLM.from_pretrained(str(tmp_path / "out"), output_loading_info=True)
    assert not any(info.values()), info
    assert (model.get_output_embeddings().weight is model.get_input_embeddings().weight) is tied
    ids = torch.randint(0, TARGET, (2, 20), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert torch.allclose(model(ids).logits, slow(ids).logits, atol=1e-4)
    others = slow.state_dict()
    for name, tensor in model.state_dict().items():
        if not name.startswith(("lm_head", "model.embed_tokens", "transformer.wte")):
            assert torch.equal(tensor, others[name]), name
    assert result.summary["vocab_size"] == model.config.vocab_size == TARGET
    assert result.summary["tied"] is tied
    assert result.summary["parameters"] == model.num_parameters()
    assert (len(list((tmp_path / "out").glob("*.safetensors"))) > 1) is (shard == SEVERAL_FILES)
    assert set(weights(tmp_path / "out")) == set(weights(given["source_model"]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_files_are_those_of_transformers_and_the_same_twice(build, model_inputs, tmp_path, dtype):
    given = model_inputs(dtype=dtype)
    build.run(given, tmp_path / "one")
    build.run(given, tmp_path / "two")
    assert digests(tmp_path / "one") == digests(tmp_path / "two")
    assert str(tmp_path) not in "".join(path.read_text() for path in (tmp_path / "one").glob("*.json"))
    model = AutoModelForCausalLM.from_pretrained(str(tmp_path / "one"), dtype="auto")
    assert model.dtype == dtype
    model.save_pretrained(str(tmp_path / "saved"))
    assert load_file(tmp_path / "saved" / "model.safetensors").keys() == weights(tmp_path / "one").keys()
    saved, own = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("saved", "one"))
    assert saved == own
    configs = [json.loads((tmp_path / name / "config.json").read_text()) for name in ("saved", "one")]
    assert configs[0] == configs[1]
    tokenizer = AutoTokenizer.from_pretrained(str(tmp_path / "one"))
    assert len(tokenizer) == TARGET
    assert {role: getattr(model.config, role) for role in ENDS} == ENDS
    assert model.generation_config.eos_token_id == 2


@pytest.mark.parametrize(("source", "wanted"), [(torch.float32, "bfloat16"), (torch.bfloat16, "float32")])
def test_number_format_can_be_changed(build, model_inputs, tmp_path, source, wanted):
    given = model_inputs(dtype=source)
    build.run(given, tmp_path / "out", dtype=wanted)
    found, slow = (
        weights(tmp_path / "out"),
        replaced(given["source_model"], build.some_mapping(), getattr(torch, wanted)),
    )
    assert {str(tensor.dtype) for tensor in found.values()} == {f"torch.{wanted}"}
    assert AutoModelForCausalLM.from_pretrained(str(tmp_path / "out"), dtype="auto").dtype == getattr(torch, wanted)
    for name, tensor in slow.state_dict().items():
        assert torch.allclose(found[name], tensor, rtol=1e-2 if wanted == "bfloat16" else 1e-6, atol=1e-6)


def test_rows_beyond_the_source_vocabulary_count_in_nothing(build, model_inputs, tmp_path):
    mapping = build.some_mapping(empty=range(300, 400), source=SOURCE - 30)
    given = model_inputs(mapping)
    path = given["source_model"] / "model.safetensors"
    stored = load_file(path)
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        stored[name][-30:] = float("nan")
    save_file(stored, path, {"format": "pt"})
    result = build.run(given, tmp_path / "out")
    assert result.summary["drawn_rows"] == 100
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        drawn, known = weights(tmp_path / "out")[name][300:], stored[name][:-30]
        assert torch.allclose(drawn.mean(dim=0), known.mean(dim=0), atol=0.15)
        assert torch.allclose(drawn.std(dim=0), known.std(dim=0), rtol=0.35)


def test_drawn_rows_depend_on_the_seed_and_differ_between_tables(build, model_inputs, tmp_path):
    given, tables = model_inputs(), []
    for seed in (0, 1):
        folder = build.write_mapping(tmp_path / f"mapping{seed}", build.some_mapping(empty=range(100, 400)), seed)
        build.run({**given, "mapping": folder}, tmp_path / f"seed{seed}")
        tables.append(weights(tmp_path / f"seed{seed}"))
    assert not torch.equal(tables[0]["lm_head.weight"], tables[1]["lm_head.weight"])
    noise = [tables[0][name][100:].flatten() for name in ("lm_head.weight", "model.embed_tokens.weight")]
    assert abs(float(torch.corrcoef(torch.stack(noise))[0, 1])) < 0.1


@pytest.mark.parametrize("tied", [False, True])
def test_rows_given_as_numbers(build, model_inputs, tmp_path, tied):
    rows = np.array([60, 61, 399])
    chooser = np.random.default_rng(0)
    tables = [chooser.normal(size=(3, 16)).astype(np.float32) for _ in range(2)]
    mapping = build.some_mapping(empty=[*rows, 70])
    dense = DenseRows(mapping, rows, tables[0], None if tied else tables[1])
    result = build.run(model_inputs(mapping, dense, tied=tied), tmp_path / "out")
    found = weights(tmp_path / "out")
    assert np.array_equal(found["model.embed_tokens.weight"][rows].numpy(), tables[0])
    if not tied:
        assert np.array_equal(found["lm_head.weight"][rows].numpy(), tables[1])
    assert result.summary["drawn_rows"] == 1


def test_rows_given_as_numbers_that_do_not_fit(build, model_inputs, tmp_path):
    mapping = build.some_mapping(empty=[60])
    narrow = DenseRows(mapping, np.array([60]), np.ones((1, 5), np.float32), np.ones((1, 5), np.float32))
    given = model_inputs(mapping, narrow)
    with pytest.raises(InputError, match=r"dense rows for the (LM head|input embeddings) are \[1, 5\].*another model"):
        build.run(given, tmp_path / "out")
    write_dense(given["mapping"], DenseRows(mapping, np.array([60]), np.ones((1, 16), np.float32), None))
    with pytest.raises(InputError, match="none for the LM head"):
        build.run(given, tmp_path / "out")


def test_matched_lengths(build, model_inputs, tmp_path):
    """The k-th longest of R rows that are no copies gets the ((R - k + 1/2) / R)-quantile of the source's lengths."""
    given = model_inputs()
    build.run(given, tmp_path / "keep")
    build.run(given, tmp_path / "match", norms="match")
    old, kept, matched = (weights(folder) for folder in (given["source_model"], tmp_path / "keep", tmp_path / "match"))
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        assert torch.equal(kept[name][:50], matched[name][:50])
        before, after = kept[name][50:].norm(dim=1), matched[name][50:].norm(dim=1)
        cosine = torch.nn.functional.cosine_similarity(kept[name][50:], matched[name][50:])
        assert torch.allclose(cosine, torch.ones(350), atol=1e-5)
        assert torch.equal(before.argsort(), after.argsort())
        lengths = np.sort(old[name].norm(dim=1).numpy())
        place = (np.arange(350) + 0.5) / 350 * (SOURCE - 1)
        expected = np.interp(place, np.arange(SOURCE), lengths)
        assert np.allclose(np.sort(after.numpy()), expected, rtol=1e-5)
        assert before.mean() < after.mean()


@pytest.mark.parametrize("family", ["llama", "phi"])
def test_padding_to_a_multiple_of_64(build, model_inputs, tmp_path, family):
    given = model_inputs(family=family)
    result = build.run(given, tmp_path / "out", pad_to_multiple=64)
    assert (result.summary["vocab_size"], result.summary["padding_rows"]) == (448, 48)
    model = AutoModelForCausalLM.from_pretrained(str(tmp_path / "out"))
    assert model.config.vocab_size == 448
    for table in (model.get_input_embeddings().weight, model.get_output_embeddings().weight):
        assert torch.allclose(table[400:], table[:400].mean(dim=0).expand(48, -1), atol=1e-6)
    with torch.no_grad():
        logits = model(torch.arange(1, 30)[None]).logits[0]
    assert torch.allclose(logits[:, 400], logits[:, :400].mean(dim=1), atol=1e-4)
    assert int(logits.argmax(dim=1).max()) < 400
    written = model.generate(torch.arange(1, 5)[None], do_sample=True, max_new_tokens=20, temperature=50.0)
    assert model.generation_config.suppress_tokens == list(range(400, 448))
    assert int(written.max()) < 400


def test_sampling_values_without_sampling_are_saved(build, model_inputs, tmp_path):
    given = model_inputs()
    path = given["source_model"] / "generation_config.json"
    path.write_text(json.dumps({"temperature": 0.6, "top_p": 0.9, "eos_token_id": [7, 8], "suppress_tokens": [3]}))
    build.run(given, tmp_path / "out")
    saved = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    assert saved["eos_token_id"] == 2
    assert saved["do_sample"] is True
    assert not saved.get("suppress_tokens")


def with_turn_token(folder, out):
    """The tokenizer in `folder` with one special token more, the last."""
    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    tokenizer.add_tokens([AddedToken("<|turn|>", special=True)])
    tokenizer.save_pretrained(str(out))
    return out


@pytest.mark.parametrize(("old", "new"), [([2, 7], [2, TARGET]), ([7, 2], [2, TARGET]), ([2, 9], 2), (7, 2)])
def test_a_chat_model_keeps_its_further_end_tokens(build, model_inputs, tokenizers, tmp_path, old, new):
    """Old token 7 ends a turn; the new special token, a copy of it, does so in the new model."""
    base = build.some_mapping(target=TARGET + 1)
    rows, ids = np.append(base.rows.row_of_entry(), TARGET), np.append(base.source_ids, 7)
    last = rows == TARGET
    ids, weights = np.where(last, 7, ids), np.append(base.weights, 1.0)
    mapping = TokenMapping.from_coo(rows, ids, weights, base.shape)
    given = {**model_inputs(mapping), "tokenizer": with_turn_token(tokenizers["dutch"], tmp_path / "chat")}
    for name in ("generation_config.json", "config.json"):
        values = json.loads((given["source_model"] / name).read_text())
        (given["source_model"] / name).write_text(json.dumps({**values, "eos_token_id": old}))
    build.run(given, tmp_path / "out")
    for name in ("generation_config.json", "config.json"):
        assert json.loads((tmp_path / "out" / name).read_text())["eos_token_id"] == new


def test_a_tokenizer_without_special_tokens(build, model_inputs, tokenizers, tmp_path):
    plain = tmp_path / "plain"
    plain.mkdir()
    spec = json.loads((tokenizers["russian-bytes"] / "tokenizer.json").read_text())
    spec["added_tokens"] = []
    (plain / "tokenizer.json").write_text(json.dumps(spec))
    size = len(spec["model"]["vocab"])
    given = {**model_inputs(build.some_mapping(target=size)), "tokenizer": plain}
    with pytest.raises(
        InputError, match=r"in the model's folder: it has other tokens; other special .*\(eos, bos, unk"
    ):
        build.run(given, tmp_path / "llama")  # beside a Llama's config.json, transformers takes its tokenizer class
    (plain / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    build.run(given, tmp_path / "out")
    model = AutoModelForCausalLM.from_pretrained(str(tmp_path / "out"))
    for config in (model.config, model.generation_config):
        assert (config.bos_token_id, config.eos_token_id, config.pad_token_id) == (None, None, None)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_copies_keep_every_bit(build, model_inputs, tmp_path, dtype):
    """A sum would make 0 of -0, and round float64."""
    given = model_inputs(dtype=dtype)
    path = given["source_model"] / "model.safetensors"
    stored = load_file(path)
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        stored[name][7, :3] = torch.tensor([-0.0, torch.finfo(dtype).tiny / 4, 1 / 3], dtype=dtype)
    save_file(stored, path, {"format": "pt"})
    build.run(given, tmp_path / "out")
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        found = weights(tmp_path / "out")[name]
        assert torch.equal(found[:50].view(torch.uint8), stored[name][:50].view(torch.uint8))


def test_no_token_in_common(build, model_inputs, tmp_path):
    """Nothing is copied, everything is drawn; the verification has nothing to compare with and does not fail."""
    result = build.run(model_inputs(build.some_mapping(empty=range(TARGET))), tmp_path / "out", norms="match")
    assert result.summary["drawn_rows"] == TARGET
    assert check(tmp_path / "out", "tokens kept unchanged in the LM head")["figures"]["rows"] == 0


@pytest.mark.parametrize("width", [1, 300])
def test_drawn_rows_do_not_depend_on_the_number_of_threads(width):
    empty = TokenMapping.from_coo(*(np.zeros(0, np.int64) for _ in range(3)), (50, 70_000))
    old = torch.randn(70_000, width, generator=torch.Generator().manual_seed(0))
    name, old = ("LM head's bias", old[:, 0]) if width == 1 else ("LM head", old[:9000])
    before, made = torch.get_num_threads(), []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        made.append(new_table(name, old, [NewRows(empty, 0, np.zeros(0, np.int64))], size=64))
    torch.set_num_threads(before)
    assert torch.equal(made[0], made[1])
    assert torch.equal(made[0], made[2])


def test_names_without_the_base_models_prefix(build, model_inputs, tmp_path):
    """GPT-2's published weights leave out `transformer.`."""
    given = model_inputs(family="gpt2", tied=True)
    path = given["source_model"] / "model.safetensors"
    save_file({name.removeprefix("transformer."): t for name, t in load_file(path).items()}, path, {"format": "pt"})
    build.run(given, tmp_path / "out")
    assert weights(tmp_path / "out")["wte.weight"].shape == (TARGET, 16)
    _, info = AutoModelForCausalLM.from_pretrained(str(tmp_path / "out"), output_loading_info=True)
    assert not info["missing_keys"]


def test_a_second_copy_of_a_tied_table_is_left_out_and_another_head_refused(build, model_inputs, tmp_path):
    given = model_inputs(tied=True)
    path = given["source_model"] / "model.safetensors"
    stored = load_file(path)
    stored["lm_head.weight"] = stored["model.embed_tokens.weight"].clone()
    save_file(stored, path, {"format": "pt"})
    build.run(given, tmp_path / "out")
    assert "lm_head.weight" not in weights(tmp_path / "out")
    stored["lm_head.weight"][3, 3] += 1
    save_file(stored, path, {"format": "pt"})
    with pytest.raises(InputError, match=r"ties the LM head.*'lm_head.weight' is stored with other numbers"):
        open_source(given["source_model"])


def test_two_vocabularies_one_after_the_other(build, tmp_path):
    """A model that reads both vocabularies has the second's rows after the first's."""
    none = np.zeros(0, np.int64)
    one, two = build.some_mapping(target=10, copies=2), build.some_mapping(target=6, copies=1, seed=1)
    source = open_source(build.source_model(tmp_path / "source"))
    old = source.tables.input.read()
    both = new_table("input embeddings", old, [NewRows(one, 0, none), NewRows(two, 0, none)], size=20)
    assert torch.equal(both[:10], one.apply(old))
    assert torch.equal(both[10:16], two.apply(old))
    assert torch.allclose(both[16:], both[:16].mean(dim=0).expand(4, -1), atol=1e-6)


def test_shards_are_read_row_by_row(build, tmp_path):
    folder = build.source_model(tmp_path / "source", shard="8KB")
    tensors = {tensor.name: tensor for shard in read_shards(folder, "model") for tensor in shard.tensors}
    expected = weights(folder)
    assert tensors.keys() == expected.keys()
    for name, tensor in tensors.items():
        assert torch.equal(tensor.read(), expected[name])
        assert b"".join(tensor.chunks(64)) == expected[name].numpy().tobytes()
    assert torch.equal(tensors["lm_head.weight"].rows(7, 9), expected["lm_head.weight"][7:9])


def test_fertility_comes_from_its_stage_or_is_measured(build, model_inputs, tmp_path):
    given = model_inputs()
    build.run(given, tmp_path / "measured")
    rows = [{"tokenizer": name, "tokens_per_word": value, "tokens_per_byte": 0.5, "continued_word_share": 0.5}
            for name, value in (("source", 1.5), ("target", 2.5))]  # fmt: skip
    (tmp_path / "fertility").mkdir()
    write_table(pa.Table.from_pylist(rows), tmp_path / "fertility" / "fertility.parquet")
    result = build.run({**given, "fertility": tmp_path / "fertility"}, tmp_path / "read")
    found = [check(tmp_path / name, "fertility") for name in ("measured", "read")]
    assert found[0]["status"] == "passed"
    assert found[0]["figures"]["before"]["tokens_per_word"] > found[0]["figures"]["after"]["tokens_per_word"] > 0
    assert found[1]["figures"]["before"]["tokens_per_word"] == 1.5
    assert "needs 2.500 tokens a word" in result.summary["verification"]["warnings"]["fertility"]


def check(folder, name):
    checks = json.loads((folder / "verification.json").read_text())["checks"]
    return next(entry for entry in checks if entry["name"] == name)


def test_rows_of_the_verification(build, model_inputs, tmp_path):
    build.run(model_inputs(), tmp_path / "out")
    rows = pq.read_table(tmp_path / "out" / "verification.parquet")
    assert rows.column_names == [
        "target_id", "token", "copied", "reachable", "input_norm", "input_equal_to", "head_norm", "head_equal_to",
    ]  # fmt: skip
    assert rows["copied"].to_pylist() == [True] * 50 + [False] * 350
    norms = weights(tmp_path / "out")["lm_head.weight"].norm(dim=1).numpy()
    assert np.allclose(rows["head_norm"].to_numpy(), norms, rtol=1e-5)
    assert rows["head_equal_to"].to_pylist() == list(range(400))
