"""A folder that looks like a model from outside, and a store with a complete run of tiny models."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save_file

from configs.load import compose
from flows import cli
from storage.store import BuildRequest, Built, Store


@pytest.fixture
def write_model(tmp_path):
    """Makes the folder `model` with the named files; weights and config.json can be read."""

    def write(*names):
        folder = tmp_path / "model"
        folder.mkdir()
        for name in names:
            (folder / name).write_text("{}" if name.endswith(".json") else name)
        for path in folder.glob("*.safetensors"):
            save_file({"weight": np.zeros(3, np.float32)}, path)
        return folder

    return write


CARD = "---\nlanguage: eo\n---\n\n# The card of the run\n"
WORDS = ["<unk>", "<s>", "</s>", "la", "kato", "dormas", "."]


def _write_model(folder, seed):
    """A tiny model that loads with plain transformers, with a table of losses as a training writes it."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(seed)
    config = LlamaConfig(vocab_size=len(WORDS), hidden_size=8, intermediate_size=16, num_hidden_layers=1,
                         num_attention_heads=1, max_position_embeddings=16)  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    inner = Tokenizer(models.WordLevel({word: n for n, word in enumerate(WORDS)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=inner, **special).save_pretrained(folder)
    rows = [{"step": n, "tokens": 10 * n, "loss": 3.0 - n, "learning_rate": 0.1, "gradient_norm": 1.0} for n in (1, 2)]
    pq.write_table(pa.Table.from_pylist(rows), folder / "losses.parquet")


@pytest.fixture(scope="session")
def made_store(tmp_path_factory):
    """Folder of a store with a complete run of two phases and its record, as a run would leave it, and the run's id."""
    folder = tmp_path_factory.mktemp("trained") / "store"
    store, run_id = Store(str(folder)), "20300101T000000-eo.tiny-english.trans-tokenization-00000000"
    run = compose("eo", "tiny-english", "trans-tokenization")
    writers = {
        "initial-model": lambda out: _write_model(out, 0),
        "training.1": lambda out: _write_model(out, 1),
        "training.2": lambda out: _write_model(out, 2),
        "card": lambda out: (out / "README.md").write_text(CARD),
    }
    stages = []
    for number, (node, write) in enumerate(writers.items()):

        def build(out, work, write=write):
            write(out)
            return Built()

        stage = node.partition(".")[0]
        artifact = store.get_or_build(BuildRequest(stage, 1, {"trainable": "all", "seed": number}, {}), build).artifact
        stages.append({"node": node, "stage": stage, "label": node, "status": "Completed", "key": artifact.key})
    record = {"run_id": run_id, "language": "eo", "status": "completed", "started_at": "", "stages": stages,
              "config": run.model_dump(mode="json")}  # fmt: skip
    store.write_run(run_id, "run.json", json.dumps(record).encode())
    return folder, run_id


@pytest.fixture
def trained(made_store, tmp_path, monkeypatch):
    """A store of its own with the complete run, and the run's id."""
    shutil.copytree(made_store[0], tmp_path / "store", copy_function=shutil.copy2)
    monkeypatch.setenv("LANGADAPT_STORE", str(tmp_path / "store"))
    return Store(str(tmp_path / "store")), made_store[1]


@pytest.fixture
def call(monkeypatch, capsys):
    """Runs the command in this process; gives exit code, output and errors."""

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["langadapt", *arguments])
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = end.code or 0
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run
