"""Stage `mapping`."""

import hashlib
import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from configs.schema import MappingConfig
from storage.tables import write_table
from tasks.contract import InputError, StageContext, load_stage
from tasks.embeddings.mapping_files import read_mapping


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
        "target_id": 1, "token": "<s>", "text": "<s>", "origin": "special", "frequency": 0, "sources": 1,
        "entropy": 0.0, "top_source": "<s>", "top_weight": 1.0,
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
