"""Stages `mapping` and `initial-model`."""

import hashlib
import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2Config, GPT2LMHeadModel

from configs.schema import InitialModelConfig, MappingConfig
from storage.tables import write_table
from tasks.contract import InputError, StageContext, load_stage
from tasks.embeddings.initial_model import replace_vocabulary
from tasks.embeddings.mapping_files import read_mapping
from tasks.embeddings.token_mapping import TokenMapping


def run_stage(name, config, inputs, out):
    out.mkdir(parents=True, exist_ok=True)
    return load_stage(name).run(StageContext(config=config, inputs=inputs, out=out, work=out))


@pytest.fixture(scope="session")
def counts(tokenizers, tmp_path_factory):
    """Counts of random pairs; a third of the target tokens have none."""
    folder = tmp_path_factory.mktemp("counts")
    chooser = np.random.default_rng(0)
    ids = np.sort(chooser.choice(np.arange(259, 400), 500))
    table = pa.table({
        "source_id": pa.array(chooser.integers(259, 380, 500), pa.int32()),
        "target_id": pa.array(ids, pa.int32()),
        "all_to_all": np.full(500, 20.0), "in_order": np.full(500, 20.0), "count": np.full(500, 20.0),
    })  # fmt: skip
    write_table(table, folder / "token_pairs.parquet")
    return folder


@pytest.fixture(scope="session")
def mapped(tokenizers, counts, tmp_path_factory):
    """Makes a mapping from english to dutch: method -> folder."""

    def make(method, **config):
        out = tmp_path_factory.mktemp(method)
        inputs = {"tokenizer": tokenizers["dutch"], "source_tokenizer": tokenizers["english"], "counts": counts}
        run_stage("mapping", MappingConfig(method=method, **config), inputs, out)
        return out

    return make


def digests(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_mapping_files(mapped, tokenizers):
    folder = mapped("trans-tokenization")
    assert digests(folder) == digests(mapped("trans-tokenization"))
    table = pq.read_table(folder / "mapping.parquet")
    assert [str(kind) for kind in table.schema.types] == ["int32", "int32", "double"]
    tokens = pq.read_table(folder / "tokens.parquet").to_pylist()
    assert len(tokens) == 400
    assert tokens[1] == {
        "target_id": 1, "token": "<s>", "origin": "special", "frequency": 0, "sources": 1, "entropy": 0.0,
        "top_source": "<s>", "top_weight": 1.0,
    }  # fmt: skip
    assert json.loads((folder / "mapping.json").read_text()) == {
        "target_size": 400, "source_size": 380, "uncovered": None,
    }  # fmt: skip
    mapping, seed = read_mapping(folder)
    assert seed is None
    assert mapping.covered().all()
    assert mapping.origins() == [row["origin"] for row in tokens]


def test_mapping_summary_weights_by_frequency(tokenizers, counts, tmp_path):
    import shutil

    folder = shutil.copytree(tokenizers["dutch"], tmp_path / "tokenizer")
    frequency = np.zeros(400, np.int64)
    frequency[[300, 5]] = 30, 10
    table = pa.table({"token_id": pa.array(np.arange(400), pa.int32()), "count": frequency})
    write_table(table, folder / "frequencies.parquet")
    inputs = {"tokenizer": folder, "source_tokenizer": tokenizers["english"], "counts": counts}
    summary = run_stage("mapping", MappingConfig(), inputs, tmp_path / "out").summary
    assert sum(summary["rows"].values()) == 400
    assert summary["frequency_share"]["identical"] == 0.25  # the byte
    origin = read_mapping(tmp_path / "out")[0].origins()[300]
    assert summary["frequency_share"][origin] == 0.75


def test_random_mapping_says_how_uncovered_rows_are_drawn(mapped):
    sizes = json.loads((mapped("random", seed=4) / "mapping.json").read_text())
    assert sizes["uncovered"] == {"rule": "normal", "seed": 4}


def test_mapping_needs_tokenizers_and_fitting_counts(tokenizers, counts, tmp_path):
    inputs = {"tokenizer": tokenizers["dutch"], "source_tokenizer": tmp_path, "counts": counts}
    with pytest.raises(InputError, match=r"source tokenizer: .* has no tokenizer"):
        run_stage("mapping", MappingConfig(), inputs, tmp_path / "out")
    with pytest.raises(InputError, match="needs counts of aligned tokens"):
        run_stage("mapping", MappingConfig(), {k: v for k, v in inputs.items() if k != "counts"} | {
            "source_tokenizer": tokenizers["english"]}, tmp_path / "out")  # fmt: skip
    other = {"tokenizer": tokenizers["english"], "source_tokenizer": tokenizers["dutch"], "counts": counts}
    with pytest.raises(InputError, match="the counts hold target token 399, the target tokenizer has 380 tokens"):
        run_stage("mapping", MappingConfig(), other, tmp_path / "out")


@pytest.mark.parametrize("method", ["trans-tokenization", "mean", "random"])
@pytest.mark.parametrize(("tied", "dtype"), [(False, torch.float32), (True, torch.float32), (False, torch.bfloat16)])
def test_initial_model(mapped, tokenizers, tiny_llama, tmp_path, method, tied, dtype):
    source = tiny_llama(tmp_path / "source", 384, tied, dtype)  # 4 rows more than the tokenizer has tokens
    inputs = {"source_model": source, "tokenizer": tokenizers["dutch"], "mapping": mapped(method)}
    run_stage("initial-model", InitialModelConfig(), inputs, tmp_path / "one")
    result = run_stage("initial-model", InitialModelConfig(), inputs, tmp_path / "two")
    assert digests(tmp_path / "one") == digests(tmp_path / "two")
    assert str(tmp_path) not in (tmp_path / "one" / "config.json").read_text()
    model = AutoModelForCausalLM.from_pretrained(str(tmp_path / "one"), dtype="auto")
    tokenizer = AutoTokenizer.from_pretrained(str(tmp_path / "one"))
    assert model.dtype == dtype
    assert model.config.vocab_size == len(tokenizer) == 400
    assert (model.config.bos_token_id, model.config.eos_token_id, model.config.pad_token_id) == (1, 2, None)
    assert model.generation_config.eos_token_id == 2
    assert (model.get_output_embeddings().weight is model.get_input_embeddings().weight) is tied
    assert result.summary["tables"]["tied"] is tied
    assert model(**tokenizer("de tuin", return_tensors="pt")).logits.shape[-1] == 400
    check_rows(load_file(source / "model.safetensors"), load_file(tmp_path / "one" / "model.safetensors"), inputs)


def check_rows(old, new, inputs):
    """Each covered row of each table is the weighted mean of that table's rows; nothing else changed."""
    mapping, _ = read_mapping(inputs["mapping"])
    dense = np.zeros(mapping.shape, np.float32)
    dense[mapping.rows.row_of_entry(), mapping.source_ids] = mapping.weights
    for name, table in new.items():
        if name not in ("model.embed_tokens.weight", "lm_head.weight"):
            assert torch.equal(table, old[name])
            continue
        expected = dense @ old[name][:380].float().numpy()
        found = table.float().numpy()
        tolerance = 1e-6 if table.dtype == torch.float32 else 2e-3
        assert np.allclose(found[mapping.covered()], expected[mapping.covered()], atol=tolerance)
        drawn = found[~mapping.covered()]
        if len(drawn):
            rows = old[name][:380].float()
            assert np.allclose(drawn.mean(axis=0), rows.mean(dim=0), atol=0.01)
            assert np.allclose(drawn.std(axis=0), rows.std(dim=0), rtol=0.25)


def test_drawn_rows_depend_on_the_seed_and_differ_between_tables(mapped, tokenizers, tiny_llama, tmp_path):
    source = tiny_llama(tmp_path / "source", 380)
    tables = []
    for seed in (0, 1):
        inputs = {"source_model": source, "tokenizer": tokenizers["dutch"], "mapping": mapped("random", seed=seed)}
        run_stage("initial-model", InitialModelConfig(), inputs, tmp_path / f"seed{seed}")
        tables.append(load_file(tmp_path / f"seed{seed}" / "model.safetensors"))
    assert not torch.equal(tables[0]["lm_head.weight"], tables[1]["lm_head.weight"])
    noise = [tables[0][name][3:].flatten() for name in ("lm_head.weight", "model.embed_tokens.weight")]
    assert abs(float(torch.corrcoef(torch.stack(noise))[0, 1])) < 0.1


def test_number_format_can_be_changed(mapped, tokenizers, tiny_llama, tmp_path):
    source = tiny_llama(tmp_path / "source", 380)
    inputs = {"source_model": source, "tokenizer": tokenizers["dutch"], "mapping": mapped("mean")}
    run_stage("initial-model", InitialModelConfig(dtype="bfloat16"), inputs, tmp_path / "out")
    assert {t.dtype for t in load_file(tmp_path / "out" / "model.safetensors").values()} == {torch.bfloat16}


def test_pickled_weights_are_refused(mapped, tokenizers, tiny_llama, tmp_path):
    source = tiny_llama(tmp_path / "source", 380)
    (source / "model.safetensors").rename(source / "pytorch_model.bin")
    inputs = {"source_model": source, "tokenizer": tokenizers["dutch"], "mapping": mapped("mean")}
    with pytest.raises(InputError, match=r"no \.safetensors weights \(found: pytorch_model.bin\).*convert"):
        run_stage("initial-model", InitialModelConfig(), inputs, tmp_path / "out")
    (source / "config.json").unlink()
    with pytest.raises(InputError, match=r"has no config\.json"):
        run_stage("initial-model", InitialModelConfig(), inputs, tmp_path / "out")


def test_model_and_tokenizer_that_do_not_belong_together(mapped, tokenizers, tiny_llama, tmp_path):
    inputs = {"tokenizer": tokenizers["dutch"], "mapping": mapped("mean")}
    small = tiny_llama(tmp_path / "small", 300)
    with pytest.raises(InputError, match="have 300 rows; model and tokenizer do not belong together"):
        run_stage("initial-model", InitialModelConfig(), {**inputs, "source_model": small}, tmp_path / "out")
    fitting = tiny_llama(tmp_path / "fitting", 380)
    with pytest.raises(InputError, match="the mapping has 400 rows, the tokenizer 380 tokens"):
        run_stage("initial-model", InitialModelConfig(), {**inputs, "source_model": fitting,
                  "tokenizer": tokenizers["english"]}, tmp_path / "out")  # fmt: skip


def small_model(bias=False):
    config = GPT2Config(vocab_size=5, n_embd=4, n_layer=1, n_head=1, n_positions=8, tie_word_embeddings=not bias)
    model = GPT2LMHeadModel(config)
    if bias:
        model.lm_head = torch.nn.Linear(4, 5, bias=True)
    return model


def test_bias_of_the_head_follows_the_mapping():
    model = small_model(bias=True)
    old = model.lm_head.bias.detach().clone()
    mapping = TokenMapping.from_coo(np.array([0, 0, 1]), np.array([1, 2, 4]), np.ones(3), (2, 5))
    replace_vocabulary(model, mapping, None)
    assert torch.allclose(model.lm_head.bias, torch.stack([(old[1] + old[2]) / 2, old[4]]))
    assert model.lm_head.out_features == model.config.vocab_size == 2


def test_damaged_and_zero_rows():
    mapping = TokenMapping.from_coo(np.array([0, 1]), np.array([1, 2]), np.ones(2), (2, 5))
    model = small_model()
    model.transformer.wte.weight.data[1] = 0
    assert replace_vocabulary(model, mapping, None)["input embeddings"]["zero"] == 1
    model = small_model()
    model.transformer.wte.weight.data[3] = float("nan")
    with pytest.raises(InputError, match="row 3 of the input embeddings is not finite"):
        replace_vocabulary(model, mapping, None)


def test_sampling_values_without_sampling_are_saved(mapped, tokenizers, tiny_llama, tmp_path):
    source = tiny_llama(tmp_path / "source", 380)
    path = source / "generation_config.json"
    path.write_text(json.dumps({"temperature": 0.6, "top_p": 0.9, "eos_token_id": [7, 8], "suppress_tokens": [3]}))
    inputs = {"source_model": source, "tokenizer": tokenizers["dutch"], "mapping": mapped("mean")}
    run_stage("initial-model", InitialModelConfig(), inputs, tmp_path / "out")
    saved = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    assert saved["eos_token_id"] == 2
    assert saved["do_sample"] is True
    assert "suppress_tokens" not in saved


def test_runs_without_duckdb_datasets_and_prefect():
    code = (
        "import sys\n"
        "for name in ('duckdb', 'datasets', 'prefect'): sys.modules[name] = None\n"
        "import tasks.embeddings.mapping_stage, tasks.embeddings.initial_model_stage\n"
        "assert not {'torch', 'numpy', 'pyarrow'} & set(sys.modules), 'heavy imports'\n"
        "import tasks.embeddings.initial_model, tasks.embeddings.mapping_files, tasks.embeddings.registry as r\n"
        "[r.load_initialiser(name) for name in r.INITIALISERS]\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
