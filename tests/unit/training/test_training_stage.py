import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from tasks.contract import InputError, load_stage

PROJECT = Path(__file__).resolve().parents[3]
TOKENIZER = ("special_tokens_map.json", "tokenizer.json", "tokenizer_config.json")  # transformers 5 has no first one


def test_declaration():
    stage = load_stage("training")
    assert (stage.isolated, stage.retries) == (True, 1)


def test_output_folder(tmp_path, run_training, model_folder, make_phase):
    done = run_training(tmp_path, model_folder, make_phase())
    tokenizer = [name for name in TOKENIZER if (model_folder / name).is_file()]
    assert len(tokenizer) >= 2
    assert sorted(done.contents()) == sorted(
        ["config.json", "generation_config.json", "losses.parquet", "model.safetensors", *tokenizer]
    )
    for name in (*tokenizer, "generation_config.json"):
        assert (done.out / name).read_bytes() == (model_folder / name).read_bytes()
    model = AutoModelForCausalLM.from_pretrained(done.out)
    tokens = AutoTokenizer.from_pretrained(done.out)("the cat sees", return_tensors="pt", truncation=False)
    assert torch.isfinite(model(**tokens).logits).all()
    for name, content in done.contents().items():
        assert str(tmp_path).encode() not in content, name
        assert str(model_folder).encode() not in content, name


def test_losses_table(tmp_path, run_training, model_folder, make_phase):
    done = run_training(tmp_path, model_folder, make_phase())
    table = pq.read_table(done.out / "losses.parquet")
    assert [(field.name, str(field.type)) for field in table.schema] == [
        ("step", "int64"),
        ("tokens", "int64"),
        ("loss", "double"),
        ("learning_rate", "double"),
        ("gradient_norm", "double"),
        ("objective", "double"),
        ("predictions", "int64"),
        ("padding", "int64"),
    ]
    assert table["step"].to_pylist() == list(range(1, 9))
    assert table["tokens"].to_pylist() == [96 * step for step in range(1, 9)]
    assert table["learning_rate"].to_pylist() == pytest.approx(
        [1e-2 * x for x in (0.5, 1, 1, 5 / 6, 4 / 6, 0.5, 2 / 6, 1 / 6)]
    )
    assert table["predictions"].to_pylist() == [90] * 8  # 6 sequences of 16: the first token is given
    assert table["padding"].to_pylist() == [0] * 8
    assert table["objective"].to_pylist() == table["loss"].to_pylist()
    summary = done.result.summary
    assert summary["final_loss"] == table["loss"][-1].as_py() == summary["mean_loss_of_last_tenth"]
    assert summary["tokens"] == 8 * 96
    assert json.loads(json.dumps(summary)) == summary
    assert [row["step"] for row in done.result.measurements] == [3, 6, 8]
    assert all(row["tokens_per_second"] > 0 and row["peak_memory_bytes"] > 10**6 for row in done.result.measurements)


def test_two_runs_give_the_same_bytes(tmp_path, run_training, model_folder, make_phase):
    first = run_training(tmp_path / "one", model_folder, make_phase())
    second = run_training(tmp_path / "two", model_folder, make_phase(name="other", log_every=1, checkpoint_every=100))
    assert first.contents() == second.contents()
    other = run_training(tmp_path / "three", model_folder, make_phase(seed=1))
    assert other.contents()["model.safetensors"] != first.contents()["model.safetensors"]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_number_format_is_kept(tmp_path, run_training, make_model_folder, make_phase, dtype):
    folder = make_model_folder(dtype=dtype)
    done = run_training(tmp_path, folder, make_phase(trainable="embeddings", steps=2))
    before, after = load_file(folder / "model.safetensors"), load_file(done.out / "model.safetensors")
    assert {tensor.dtype for tensor in after.values()} == {dtype}
    config = json.loads((done.out / "config.json").read_text())
    assert (config.get("dtype") or config.get("torch_dtype")) == str(dtype).removeprefix("torch.")
    frozen = "model.layers.0.mlp.up_proj.weight"
    assert torch.equal(before[frozen], after[frozen]), "a frozen weight keeps its bits through float32"


def test_number_format_of_a_folder_that_does_not_say(tmp_path, run_training, make_model_folder, make_phase):
    folder = make_model_folder(dtype=torch.bfloat16)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({k: v for k, v in config.items() if not k.endswith("dtype")}))
    done = run_training(tmp_path, folder, make_phase(steps=1))
    assert {tensor.dtype for tensor in load_file(done.out / "model.safetensors").values()} == {torch.bfloat16}


def test_generation_settings_that_transformers_refuses(tmp_path, run_training, make_model_folder, make_phase):
    """As published with Llama 2: a temperature without do_sample."""
    folder = make_model_folder()
    settings = json.dumps({"bos_token_id": 1, "eos_token_id": 2, "temperature": 0.9, "top_p": 0.6})
    (folder / "generation_config.json").write_text(settings)
    done = run_training(tmp_path, folder, make_phase(steps=1))
    assert (done.out / "generation_config.json").read_text() == settings


def test_refusals(tmp_path, run_training, make_model_folder, make_phase, tokenizer_folder, corpus_writer):
    folder = make_model_folder()
    with pytest.raises(InputError, match=r"sequence_length is 65, but the model has 64 positions"):
        run_training(tmp_path / "a", folder, make_phase(sequence_length=65))
    short = corpus_writer(tmp_path / "short", ["a cat"])
    with pytest.raises(InputError, match=r"fewer than one sequence of 16: lower sequence_length to at most"):
        run_training(tmp_path / "b", folder, make_phase(), corpus=short)
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"model: .* needs config\.json and safetensors weights"):
        run_training(tmp_path / "c", folder, make_phase())
    for name in TOKENIZER:
        (folder / name).unlink(missing_ok=True)
    with pytest.raises(InputError, match="has no tokenizer"):
        run_training(tmp_path / "d", folder, make_phase())


def test_tokenizer_of_another_model(tmp_path, run_training, make_model_folder, make_phase, make_llama):
    folder = make_model_folder()
    model = make_llama()
    model.resize_token_embeddings(100)
    model.save_pretrained(folder)
    with pytest.raises(InputError, match=r"ids up to 2\d\d, but the model has embeddings for ids up to 99"):
        run_training(tmp_path, folder, make_phase())


def test_runs_without_the_orchestrator(tmp_path, model_folder, corpus_folder, make_phase):
    """A bare machine has torch, transformers, numpy, pyarrow, safetensors and pydantic."""
    script = """
import sys
from importlib.machinery import PathFinder
HIDDEN = {"prefect", "duckdb", "datasets", "numba", "sentencepiece"}
find = PathFinder.find_spec
PathFinder.find_spec = staticmethod(lambda name, *rest: None if name.split(".")[0] in HIDDEN else find(name, *rest))
from pathlib import Path
from configs.schema import PhaseConfig
from tasks.contract import StageContext, load_stage
load_stage("pretraining")
assert "torch" not in sys.modules, "stage modules must be light"
out, work, model, corpus = map(Path, sys.argv[1:5])
config = PhaseConfig.model_validate_json(sys.argv[5])
load_stage("training").run(StageContext(config, {"model": model, "corpus": corpus}, out, work))
print(sorted({name.split(".")[0] for name in sys.modules} & HIDDEN))
"""
    for name in ("out", "work"):
        (tmp_path / name).mkdir()
    places = [str(tmp_path / "out"), str(tmp_path / "work"), str(model_folder), str(corpus_folder)]
    command = [sys.executable, "-c", script, *places, make_phase(steps=1).model_dump_json()]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("[]")
    assert (tmp_path / "out" / "model.safetensors").is_file()
