"""What the stage `mapping` reads beside the tokenizers, and rows given as numbers in its files; bad inputs."""

import hashlib
import json
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from pydantic import ValidationError
from safetensors.numpy import load_file as load_arrays
from safetensors.torch import load_file, save_file

from configs.schema import MappingConfig, SavaConfig
from tasks.contract import InputError, StageContext, load_stage
from tasks.embeddings.dense_files import read_dense_ids, read_dense_table
from tasks.embeddings.dense_rows import DenseRows
from tasks.embeddings.mapping_files import read_mapping
from tasks.embeddings.token_mapping import TokenMapping


@pytest.fixture
def inputs(tokenizers, held_out, tiny_llama, tmp_path):
    """Source (English) and helper (Dutch) models with 4 rows more than their tokenizers have tokens."""
    source = tiny_llama(tmp_path / "source", 384)
    helper = shutil.copytree(tokenizers["dutch"], tmp_path / "helper")
    tiny_llama(helper, 404)
    return {
        "tokenizer": tokenizers["dutch"], "source_tokenizer": tokenizers["english"], "corpus": held_out,
        "source_model": source, "helper": helper,
    }  # fmt: skip


def run(inputs, out, method, files=None, **config):
    out.mkdir(parents=True, exist_ok=True)
    settings = MappingConfig(method=method, **config)
    return load_stage("mapping").run(StageContext(config=settings, inputs=inputs, out=out, work=out, files=files or {}))


def digests(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.mark.parametrize("method", ["avg", "merge", "align", "clp", "sava"])
def test_stage(inputs, tmp_path, method):
    config = {"sava": {"steps": 20}} if method == "sava" else {}
    result = run(inputs, tmp_path / "one", method, **config)
    run(inputs, tmp_path / "two", method, **config)
    assert digests(tmp_path / "one") == digests(tmp_path / "two")
    mapping, seed = read_mapping(tmp_path / "one")
    assert seed is None
    origins = pq.read_table(tmp_path / "one" / "tokens.parquet")["origin"].to_pylist()
    assert {"special", "shared"} < set(origins)
    rows = read_dense_ids(tmp_path / "one", mapping.target_size)
    assert np.array_equal(np.flatnonzero(~mapping.covered()), rows)
    assert result.summary["dense_rows"] == len(rows)
    assert result.summary["uncovered_rows"] == 0
    if method in ("merge", "align"):
        assert not len(rows)
        return
    assert {origins[row] for row in rows.tolist()} == {"average" if method == "avg" else method}
    stored = load_arrays(tmp_path / "one" / "dense.safetensors")
    assert stored["input"].shape == stored["head"].shape == (1 if method == "avg" else len(rows), 16)
    for table in ("input", "head"):
        assert read_dense_table(tmp_path / "one", table).shape == (len(rows), 16)


def test_tied_heads_have_no_table(inputs, tiny_llama, tmp_path):
    inputs["source_model"] = tiny_llama(tmp_path / "tied", 380, tied=True)
    for method, config in (("avg", {}), ("clp", {}), ("sava", {"sava": {"steps": 2}})):
        run(inputs, tmp_path / method, method, **config)
        assert read_dense_table(tmp_path / method, "head") is None
        assert read_dense_table(tmp_path / method, "input") is not None


def test_vectors_from_a_file(inputs, tmp_path):
    """OFA through the stage: what nothing covers is drawn, the same each time."""
    path = tmp_path / "words.vec"
    path.write_text("eng:house 1 0\nnld:huis 0.9 0.1\neng:garden 0 1\nnld:tuin 0.1 0.9\n", encoding="utf-8")
    read = {name: inputs[name] for name in ("tokenizer", "source_tokenizer")}
    result = run(read, tmp_path / "one", "ofa", files={"vectors": path}, seed=5)
    run(read, tmp_path / "two", "ofa", files={"vectors": path}, seed=5)
    assert digests(tmp_path / "one") == digests(tmp_path / "two")
    assert {"special", "shared", "nearest", "random"} == set(result.summary["rows"])
    assert result.summary["rows"]["nearest"] > 0
    assert result.summary["uncovered_rows"] == result.summary["rows"]["random"]
    assert read_mapping(tmp_path / "one")[1] == 5


def test_a_model_is_read_once(inputs, tmp_path, monkeypatch):
    """Three parts of the blend and the blend itself need the source model's tables, two the helper's."""
    from tasks.embeddings import ingredients

    read = []
    load = ingredients.load_tables
    monkeypatch.setattr(ingredients, "load_tables", lambda *given: read.append(given[1]) or load(*given))
    parts = [{"method": "clp"}, {"method": "avg"}, {"method": "sava", "settings": {"sava": {"steps": 2}}}]
    run(inputs, tmp_path / "out", "blend", blend={"parts": parts})
    assert sorted(read) == ["helper model", "source model"]


def test_tables_of_half_precision_are_read(inputs, tiny_llama, tmp_path):
    inputs["source_model"] = tiny_llama(tmp_path / "half", 380, dtype=torch.bfloat16)
    run(inputs, tmp_path / "out", "clp")
    assert read_dense_table(tmp_path / "out", "input").dtype == np.float32


def test_a_row_that_nothing_covers_beside_rows_of_numbers(tmp_path):
    from tasks.embeddings.canonical import Vocabulary
    from tasks.embeddings.mapping_files import write_mapping

    none = np.zeros(3, dtype=bool)
    vocabulary = Vocabulary(["a", "b", "c"], [b"a", b"b", b"c"], none, none, {})
    mapping = TokenMapping.from_coo(np.array([0]), np.array([1]), np.ones(1), (3, 3))
    dense = DenseRows(mapping, np.array([2]), np.ones((1, 4), np.float32), None)
    write_mapping(tmp_path, dense, vocabulary, vocabulary, np.zeros(3, np.int64), 7)
    assert read_mapping(tmp_path)[1] == 7
    assert json.loads((tmp_path / "mapping.json").read_text())["uncovered"] == {"rule": "normal", "seed": 7}


# ----------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("method", "missing", "reason"),
    [
        ("trans-tokenization", "counts", "needs counts of aligned tokens; add a bitext"),
        ("align", "corpus", "needs the corpus of the target language"),
        ("avg", "source_model", "needs the source model"),
        ("clp", "helper", "needs a helper model of the target language; set `helper`"),
        ("sava", "helper", "needs a helper model"),
    ],
)
def test_missing_input(inputs, tmp_path, method, missing, reason):
    inputs.pop(missing, None)
    with pytest.raises(InputError, match=f"'{method}' {reason}"):
        run(inputs, tmp_path / "out", method)


@pytest.mark.parametrize("table", ["input", "head"])
@pytest.mark.parametrize(("model", "row"), [("source_model", 300), ("helper", 5)])
def test_rows_that_are_not_finite(inputs, tmp_path, model, row, table):
    path = inputs[model] / "model.safetensors"
    tensors = load_file(path)
    tensors["model.embed_tokens.weight" if table == "input" else "lm_head.weight"][row, 3] = float("nan")
    save_file(tensors, path, metadata={"format": "pt"})
    role = model.replace("_", " ") if model == "source_model" else "helper model"
    with pytest.raises(InputError, match=f"{role}: {table} row {row} is not finite; the weights are damaged"):
        run(inputs, tmp_path / "out", "clp")


def test_damaged_rows_beyond_the_vocabulary_do_not_matter(inputs, tmp_path):
    """Padding rows of an embedding matrix larger than the vocabulary."""
    run(inputs, tmp_path / "whole", "clp")
    path = inputs["source_model"] / "model.safetensors"
    tensors = load_file(path)
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        tensors[name][380:] = float("nan")
    save_file(tensors, path, metadata={"format": "pt"})
    run(inputs, tmp_path / "damaged", "clp")
    assert digests(tmp_path / "whole") == digests(tmp_path / "damaged")


@pytest.mark.parametrize("method", ["avg", "clp", "sava"])
def test_added_tokens_beyond_the_embedding_rows(inputs, tiny_llama, tmp_path, method):
    """The source tokenizer has 380 tokens, the model 370 rows: the last ten are shared with nothing."""
    inputs["source_model"] = tiny_llama(tmp_path / "small", 370)
    run(inputs, tmp_path / "out", method, **({"sava": {"steps": 2}} if method == "sava" else {}))
    assert read_mapping(tmp_path / "out")[0].source_ids.max() < 370


@pytest.mark.parametrize("method", ["clp", "sava"])
def test_helper_of_another_hidden_size(inputs, build, tokenizers, tmp_path, method):
    helper = shutil.copytree(tokenizers["dutch"], tmp_path / "wide")
    torch.manual_seed(1)
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(vocab_size=400, hidden_size=24, intermediate_size=8, num_hidden_layers=1,
                         num_attention_heads=2, num_key_value_heads=2)  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(str(helper))
    run({**inputs, "helper": helper}, tmp_path / "out", method, **({"sava": {"steps": 2}} if method == "sava" else {}))
    assert read_dense_table(tmp_path / "out", "input").shape[1] == 16


@pytest.mark.parametrize("method", ["clp", "sava"])
def test_helper_without_a_shared_token(inputs, tiny_llama, tmp_path, method):
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    folder = tmp_path / "other"
    backend = Tokenizer(models.BPE(vocab={"Ж": 0, "Щ": 1}, merges=[]))
    PreTrainedTokenizerFast(tokenizer_object=backend).save_pretrained(str(folder))
    tiny_llama(folder, 2)
    with pytest.raises(InputError, match=f"'{method}' compares with tokens .* beside special tokens there is none"):
        run({**inputs, "helper": folder}, tmp_path / "out", method)


@pytest.mark.parametrize("method", ["avg", "merge", "align", "mean", "clp", "sava", "vocadt"])
def test_tokenizers_without_unknown_padding_or_beginning(inputs, tmp_path, method):
    """Letters only, one of them the source lacks and cannot spell: its row is drawn, or made by the helper."""
    from tokenizers import Tokenizer, models, trainers
    from transformers import PreTrainedTokenizerFast

    def bare(name, texts):
        backend = Tokenizer(models.BPE())
        backend.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=40, show_progress=False))
        PreTrainedTokenizerFast(tokenizer_object=backend).save_pretrained(str(tmp_path / name))
        return tmp_path / name

    given = {**inputs, "source_tokenizer": bare("old", ["the garden"]), "tokenizer": bare("new", ["de tuin Ж"])}
    result = run(given, tmp_path / "out", method, **({"sava": {"steps": 2}} if method == "sava" else {}))
    lost = 0 if method == "avg" else result.summary["uncovered_rows"]
    assert result.summary["uncovered_rows"] == lost
    assert (read_mapping(tmp_path / "out")[1] is None) == (lost == 0)
    if method in ("mean", "merge", "align"):
        assert lost > 0


def test_two_tokens_of_one_text(tmp_path, inputs):
    """`A` and `<0x41>` stand for one text: each finds its own kind; where one is missing, both find the other."""
    run(inputs, tmp_path / "out", "avg")
    mapping, _ = read_mapping(tmp_path / "out")
    from tasks.embeddings.canonical import vocabulary_of
    from tasks.pretrained import load_tokenizer

    target, source = (vocabulary_of(load_tokenizer(inputs[name], name)) for name in ("tokenizer", "source_tokenizer"))
    double = [surface for surface in set(target.surfaces) if target.surfaces.count(surface) > 1 and surface]
    assert double
    for surface in double:
        for t in [i for i, other in enumerate(target.surfaces) if other == surface]:
            s = int(mapping.source_ids[mapping.indptr[t]])
            assert source.surfaces[s] == surface
            kinds = {bool(source.byte[i]) for i, other in enumerate(source.surfaces) if other == surface}
            assert bool(source.byte[s]) == bool(target.byte[t]) or len(kinds) == 1


# -------------------------------------------------------------------------------------------------------- configuration


def test_the_section_of_another_method_is_refused():
    with pytest.raises(
        ValidationError, match=r"mapping\.sava holds parameters of 'sava', but mapping\.method is 'mean'"
    ):
        MappingConfig(method="mean", sava={"steps": 5})
    with pytest.raises(ValidationError, match=r"sava\.stepps"):
        MappingConfig(method="sava", sava={"stepps": 5})


def test_the_section_of_the_method_is_there_and_those_of_others_are_not():
    config = MappingConfig(method="sava", clp={})
    assert config.sava == SavaConfig()
    assert config.clp is None
    # A recipe's values, written out in full, laid under another method: only defaults may be dropped.
    assert MappingConfig.model_validate({**config.model_dump(mode="json"), "method": "mean"}) == MappingConfig(
        method="mean"
    )


def test_dense_rows_must_be_finite():
    mapping = TokenMapping.from_coo(np.array([0]), np.array([1]), np.ones(1), (3, 3))
    values = np.array([[1.0, np.nan]], dtype=np.float32)
    with pytest.raises(ValueError, match="the input row of target token 2 is not"):
        DenseRows(mapping, np.array([2]), values, None)


# -------------------------------------------------------------------------------------------------------- initial model


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("method", ["avg", "merge", "align", "clp", "sava"])
def test_the_initial_model_takes_the_rows(inputs, build, tmp_path, method, tied):
    inputs["source_model"] = build.source_model(tmp_path / "model", tied=tied)
    # Cosines of random tables sum to nearly nothing, which makes rows too long; positive ones do not.
    run(inputs, tmp_path / "mapping", method, **({"clp": {"negative": "drop"}} if method == "clp" else {}))
    build.run({**inputs, "mapping": tmp_path / "mapping"}, tmp_path / "initial")
    old, new = (load_file(folder / "model.safetensors") for folder in (inputs["source_model"], tmp_path / "initial"))
    mapping, _ = read_mapping(tmp_path / "mapping")
    rows = read_dense_ids(tmp_path / "mapping", mapping.target_size)
    for name, table in (("model.embed_tokens.weight", "input"), ("lm_head.weight", "head"))[: 1 if tied else 2]:
        expected = mapping.apply(old[name]).numpy()
        if len(rows):
            expected[rows] = read_dense_table(tmp_path / "mapping", table)
        np.testing.assert_allclose(new[name].numpy(), expected, atol=1e-6)
