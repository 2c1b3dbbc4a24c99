import sys
from pathlib import Path

import pyarrow.parquet as pq

from configs.schema import SampleConfig
from tasks.contract import StageContext, load_stage
from tasks.sample.generator import generate_pairs
from tasks.sample.stage import STAGE


def run(folder: Path, sentences: int, seed: int = 0, progress=None):
    out, work = folder / "out", folder / "work"
    out.mkdir(parents=True)
    work.mkdir()
    calls: list[tuple] = []
    context = StageContext(
        config=SampleConfig(sentences=sentences, seed=seed), inputs={}, out=out, work=work,
        progress=lambda *call: calls.append(call),
    )  # fmt: skip
    return STAGE.run(context), out / "pairs.parquet", calls


def test_table_holds_the_generated_pairs(tmp_path):
    result, path, calls = run(tmp_path, 9000, seed=4)
    table = pq.read_table(path)
    assert table.column_names == ["source", "target", "alignment"]
    assert table.num_rows == 9000
    first = next(generate_pairs(1, 4))
    row = table.slice(0, 1).to_pylist()[0]
    links = " ".join(f"{i}-{j}" for i, j in first.alignment)
    assert row == {"source": first.source, "target": first.target, "alignment": links}
    assert result.summary["pairs"] == 9000
    assert 0.9 < result.summary["distinct_share"] <= 1
    assert 8 < result.summary["source_words_per_sentence"] < 12
    assert calls[-1][:2] == (9000, 9000)
    assert result.measurements[0]["pairs_per_second"] > 0


def test_same_config_same_bytes(tmp_path):
    _, one, _ = run(tmp_path / "a", 1000)
    _, two, _ = run(tmp_path / "b", 1000)
    assert one.read_bytes() == two.read_bytes()


def test_declaration():
    assert load_stage("sample") is STAGE
    assert sys.modules["tasks.sample.stage"].STAGE.config is SampleConfig
