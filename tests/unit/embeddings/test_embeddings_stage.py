"""The stage `embeddings` on tiny models whose tables are made by hand."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file, save_file

from configs.schema import EmbeddingsConfig
from tasks.contract import StageContext, load_stage
from tasks.embeddings.canonical import vocabulary_of
from tasks.embeddings.look import side_similarity, similarity_row
from tasks.embeddings.matching import NONE, identical_tokens
from tasks.embeddings.stored_model import open_model
from tasks.pretrained import load_tokenizer

CONFIG = EmbeddingsConfig(anchors=20, tokens=6, neighbours=3, points=30)


def context(inputs, out, config=CONFIG):
    out.mkdir()
    return StageContext(config=config, inputs=inputs, out=out, work=out)


@pytest.fixture
def inputs(tokenizers, tiny_llama, tmp_path):
    """A source and an initial model of random rows; a token's frequency is its id."""
    source = tiny_llama(tmp_path / "source", 380)
    model = tiny_llama(tmp_path / "model", 400)
    (tmp_path / "mapping").mkdir()
    return {
        "source_model": source, "source_tokenizer": tokenizers["english"], "model": model,
        "tokenizer": tokenizers["dutch"], "mapping": tmp_path / "mapping",
    }  # fmt: skip


def run(inputs, out, config=CONFIG):
    size = len(vocabulary_of(load_tokenizer(inputs["tokenizer"], "target")))
    table = pa.table({"origin": ["aligned"] * size, "frequency": list(range(size))})
    pq.write_table(table, inputs["mapping"] / "tokens.parquet")
    return load_stage("embeddings").run(context(inputs, out, config))


def test_the_tables_are_read_without_the_model(tiny_llama, tmp_path):
    weights = load_file(tiny_llama(tmp_path / "untied", 50) / "model.safetensors")
    found = open_model(tmp_path / "untied", "model").tables.embeddings()
    assert torch.equal(found["input"].read(), weights["model.embed_tokens.weight"])
    assert torch.equal(found["head"].read(), weights["lm_head.weight"])
    tiny_llama(tmp_path / "tied", 50, tied=True)
    assert list(open_model(tmp_path / "tied", "model").tables.embeddings()) == ["input"]


def test_neighbours_are_new_tokens_by_frequency(inputs, tmp_path):
    run(inputs, tmp_path / "out")
    rows = pq.read_table(tmp_path / "out" / "neighbours.parquet").to_pylist()
    target = vocabulary_of(load_tokenizer(inputs["tokenizer"], "target"))
    source = vocabulary_of(load_tokenizer(inputs["source_tokenizer"], "source"))
    new = [i for i in range(400) if identical_tokens(target, source)[i] == NONE and not target.byte[i]]
    wanted = sorted(new, reverse=True)[:6]
    assert [row["target_id"] for row in rows if row["table"] == "input" and row["rank"] == 1] == wanted
    assert {row["table"] for row in rows} == {"input", "head"}
    first = rows[0]
    tables = [open_model(inputs[name], "model").tables.input.read() for name in ("model", "source_model")]
    cosines = torch.nn.functional.cosine_similarity(tables[0][first["target_id"]], tables[1])
    assert first["cosine"] == pytest.approx(float(cosines.max()), abs=1e-5)
    assert first["source_id"] == int(cosines.argmax())


def test_a_turned_table_is_fully_similar(inputs, tokenizers, tmp_path):
    weights = load_file(inputs["source_model"] / "model.safetensors")
    weights["model.embed_tokens.weight"] = 3 * weights["model.embed_tokens.weight"].roll(5, dims=1)
    weights["lm_head.weight"] = torch.randn(380, 16, generator=torch.Generator().manual_seed(1))
    config = (inputs["source_model"] / "config.json").read_bytes()
    (tmp_path / "turned").mkdir()
    save_file(weights, tmp_path / "turned" / "model.safetensors", metadata={"format": "pt"})
    (tmp_path / "turned" / "config.json").write_bytes(config)
    result = run({**inputs, "model": tmp_path / "turned", "tokenizer": tokenizers["english"]}, tmp_path / "out")
    rows = {row["table"]: row for row in pq.read_table(tmp_path / "out" / "similarity.parquet").to_pylist()}
    assert rows["input"]["similarity"] == pytest.approx(1.0, abs=1e-4)
    assert abs(rows["head"]["similarity"]) < 0.5
    assert rows["input"]["anchors"] == 40
    assert result.summary["similarity_source_input"] == rows["input"]["similarity"]
    assert pq.read_metadata(tmp_path / "out" / "neighbours.parquet").num_rows == 0


def test_vocabularies_without_a_common_word(inputs, tokenizers, tmp_path):
    """Byte-level Russian shares little more than single characters with English: there is a figure, on few tokens."""
    run({**inputs, "tokenizer": tokenizers["russian-bytes"]}, tmp_path / "out")
    rows = pq.read_table(tmp_path / "out" / "similarity.parquet").to_pylist()
    assert all(0 < row["tokens"] < 100 and row["similarity"] is not None for row in rows)


def test_vocabularies_without_a_common_token(tokenizers):
    english, russian = (vocabulary_of(load_tokenizer(tokenizers[name], name)) for name in ("english", "russian"))
    alone = replace(russian, surfaces=["я".encode() + surface for surface in russian.surfaces])
    tables = (torch.randn(len(alone), 4), torch.randn(len(english), 4))
    found = side_similarity(alone, english, tables, CONFIG)
    assert found is None
    assert similarity_row(found) == {"similarity": None, "deviation": None, "tokens": 0, "anchors": 0}


def test_the_projection_has_both_sides_and_the_bytes_are_repeatable(inputs, tmp_path):
    run(inputs, tmp_path / "one")
    run(inputs, tmp_path / "two")
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()
    rows = pq.read_table(tmp_path / "one" / "projection.parquet").to_pylist()
    assert {row["side"]: sum(other["side"] == row["side"] for other in rows) for row in rows} == {
        "source": 30,
        "target": 30,
    }
    assert all(row["origin"] == "aligned" for row in rows if row["side"] == "target")
    run(inputs, tmp_path / "three", CONFIG.model_copy(update={"seed": 1}))
    assert pq.read_table(tmp_path / "three" / "projection.parquet").to_pylist() != rows


def test_a_source_table_with_fewer_rows_than_its_tokenizer_has_tokens(inputs, tiny_llama, tmp_path):
    run({**inputs, "source_model": tiny_llama(tmp_path / "short", 300)}, tmp_path / "out")
    ids = pq.read_table(tmp_path / "out" / "neighbours.parquet")["source_id"].to_pylist()
    assert max(ids) < 300


def test_a_helper_is_a_second_reference(inputs, tokenizers, tiny_llama, tmp_path):
    import shutil

    helper = tiny_llama(tmp_path / "helper", 400)
    for path in tokenizers["dutch"].iterdir():
        shutil.copy(path, helper)
    run({**inputs, "helper": helper}, tmp_path / "out")
    rows = pq.read_table(tmp_path / "out" / "similarity.parquet").to_pylist()
    assert [(row["reference"], row["table"]) for row in rows] == [
        ("source", "input"), ("source", "head"), ("helper", "input"), ("helper", "head"),
    ]  # fmt: skip
    assert rows[2]["similarity"] == pytest.approx(1.0, abs=1e-4)  # the same random model
