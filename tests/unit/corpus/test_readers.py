"""Every format gives the same texts; pairs stay in step."""

import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from configs.schema import HubSource, SampleSource
from tasks.contract import InputError

SOURCE = [f"the {i}th house, „quoted\" 'so'" for i in range(3000)]
TARGET = [f"la {i}-a domo, «citita» ĉŝ" for i in range(3000)]
PAIRS = sorted(zip(SOURCE, TARGET, strict=True))


def zstd_frames(content: bytes) -> bytes:
    half = len(content) // 2
    return zstandard.compress(content[:half]) + zstandard.compress(content[half:])


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress, zstd_frames])
def test_compression_is_known_by_content_not_by_name(bench, pack) -> None:
    assert sorted(bench.txt(pack("\n".join(TARGET).encode())).texts()) == sorted(TARGET)


def test_tsv_has_no_quoting(bench) -> None:
    rows = "\n".join("\t".join(pair) for pair in PAIRS)
    bench.write("a.tsv", "src\ttgt\n" + rows + "\n")
    bench.write("b.tsv", rows.replace("\n", "\r\n"))
    named = bench.bitext(bench.source("a.tsv"))
    numbered = bench.bitext(bench.source("b.tsv", header=False, source_column=0, target_column=1))
    assert sorted(named.pairs()) == sorted(numbered.pairs()) == PAIRS
    assert sorted(bench.corpus(bench.source("a.tsv", text_column="tgt")).texts()) == sorted(TARGET)
    assert sorted(bench.corpus(bench.source("a.tsv", text_column=1)).texts()) == sorted(TARGET)


def test_jsonl_keys_may_be_nested(bench) -> None:
    lines = [json.dumps({"translation": {"en": source, "eo": target}}) for source, target in PAIRS]
    bench.write("a.jsonl", "\n".join(lines))
    outcome = bench.bitext(bench.source("a.jsonl", source_column="translation.en", target_column="translation.eo"))
    assert sorted(outcome.pairs()) == PAIRS


def test_a_json_text_may_hold_line_ends(bench) -> None:
    bench.write("a.jsonl", json.dumps({"text": "unua\ndua\n\ntria"}))
    assert bench.corpus(bench.source("a.jsonl")).texts() == ["unua dua tria"]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.dictionary(pa.int32(), pa.string())])
def test_parquet_text_types(bench, kind: pa.DataType) -> None:
    table = pa.table({"n": range(3000), "text": pa.array(TARGET).cast(kind)})
    pq.write_table(table, bench.root / "a.parquet", row_group_size=700)
    assert sorted(bench.corpus(bench.source("a.parquet")).texts()) == sorted(TARGET)
    assert sorted(bench.corpus(bench.source("a.parquet", text_column=1)).texts()) == sorted(TARGET)


def test_parquet_structs(bench) -> None:
    pairs = pa.array([{"en": source, "eo": target} for source, target in PAIRS])
    pq.write_table(pa.table({"translation": pairs}), bench.root / "a.parquet")
    options = {"source_column": "translation.en", "target_column": "translation.eo"}
    assert sorted(bench.bitext(bench.source("a.parquet", **options)).pairs()) == PAIRS
    with pytest.raises(InputError, match=r"no column 'translation\.de'"):
        bench.bitext(bench.source("a.parquet", source_column="translation.de"))


def test_moses_pairs_stay_in_step_over_blocks_of_unequal_sizes(bench) -> None:
    random = np.random.default_rng(1)
    source = [f"{i} " + "a long sentence " * random.integers(1, 40) for i in range(20_000)]
    target = [f"{i} mallonga" for i in range(20_000)]
    source[5] = target[7] = ""
    source[11] = "x" * (5 * 1024 * 1024)
    bench.write("t.en.gz", gzip.compress("\r\n".join(source).encode(), 1))
    bench.write("t.eo", "\n".join(target) + "\n")
    outcome = bench.bitext(bench.source("t.en.gz", target_path="t.eo"), max_length_ratio=1000)
    pairs = outcome.pairs()
    assert len(pairs) == 20_000 - 3
    assert all(source.split(" ")[0] == target.split(" ")[0] for source, target in pairs)
    assert outcome.rejected() == {"empty": 2, "too-long": 1}
    assert [line for line, _ in outcome.examples("empty")] == [6, 8]
    assert [line for line, _ in outcome.examples("too-long")] == [12]


def test_rejected_pairs_show_both_sides(bench) -> None:
    bench.write("a.tsv", "src\ttgt\na cat\tкот\ntoo long a sentence for that\tne\nok\tjes\n")
    outcome = bench.bitext(bench.source("a.tsv"), scripts=("Latin",), source_scripts=("Latin",))
    assert outcome.examples("wrong-script") == [(2, "a cat ||| кот")]
    assert outcome.examples("length-ratio") == [(3, "too long a sentence for that ||| ne")]


@pytest.fixture
def sample(tmp_path):
    (tmp_path / "sample").mkdir()
    pq.write_table(pa.table({"source": SOURCE, "target": TARGET, "alignment": ["0-0"] * 3000}),
                   tmp_path / "sample" / "pairs.parquet")  # fmt: skip
    return {"sample.s": tmp_path / "sample"}


def test_the_sample_gives_either_side_or_both(bench, sample) -> None:
    def source(side: str) -> SampleSource:
        return SampleSource(name="s", side=side, sentences=3000)

    assert sorted(bench.corpus(source("target"), inputs=sample).texts()) == sorted(TARGET)
    assert sorted(bench.corpus(source("source"), inputs=sample).texts()) == sorted(SOURCE)
    assert sorted(bench.bitext(source("both"), inputs=sample).pairs()) == PAIRS
    with pytest.raises(InputError, match="side is 'both', but monolingual text needs 'source' or 'target'"):
        bench.corpus(source("both"), inputs=sample)
    with pytest.raises(InputError, match="side is 'target', but parallel text needs side 'both'"):
        bench.bitext(source("target"), inputs=sample)


# ----------------------------------------------------------------------------------------------------------------- hub


@pytest.fixture
def data_set(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    folder = tmp_path / "data set"
    folder.mkdir()
    pairs = pa.array([{"en": source, "eo": target} for source, target in zip(SOURCE, TARGET, strict=True)])
    table = pa.table({"text": pa.array([*TARGET[:-1], None]), "translation": pairs, "n": range(3000)})
    pq.write_table(table, folder / "train.parquet")
    return folder


def hub(folder, **options) -> HubSource:
    return HubSource(name="h", dataset=str(folder), **options)


def test_a_streamed_data_set(bench, data_set) -> None:
    outcome = bench.corpus(hub(data_set))
    assert sorted(outcome.texts()) == sorted(TARGET[:-1])
    assert outcome.rejected() == {"missing-text": 1}
    assert outcome.examples("missing-text") == [(3000, "")]
    assert sorted(bench.corpus(hub(data_set, text_column="translation.eo")).texts()) == sorted(TARGET)
    pairs = bench.bitext(hub(data_set, target_column="translation.eo")).pairs()
    assert sorted(pairs) == PAIRS


def test_the_limit_of_a_streamed_data_set(bench, data_set) -> None:
    assert sorted(bench.corpus(hub(data_set, limit=1500)).texts()) == sorted(TARGET[:1500])
    for number in (1, 2):
        part = pa.table({"text": TARGET[700 * (number - 1) : 700 * number]})
        pq.write_table(part, data_set.parent / f"train-{number}.parquet")
    (data_set / "train.parquet").unlink()
    for number in (1, 2):
        (data_set.parent / f"train-{number}.parquet").rename(data_set / f"train-{number}-of-2.parquet")
    assert sorted(bench.corpus(hub(data_set, limit=1350)).texts()) == sorted(TARGET[:1350])


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"text_column": "teksto"}, "has no column 'teksto'; the columns are: text"),
        ({"text_column": "n"}, "column 'n' holds int64, not text"),
        ({"hub_split": "dev"}, "cannot be opened"),
        ({"config": "large"}, "cannot be opened"),
    ],
)
def test_a_data_set_that_does_not_fit(bench, data_set, options, problem: str) -> None:
    with pytest.raises(InputError, match=rf"source 'h': data set .*{problem}"):
        bench.corpus(hub(data_set, **options))


def test_parallel_data_sets_need_both_columns(bench, data_set) -> None:
    with pytest.raises(InputError, match="needs `source_column` and `target_column`"):
        bench.bitext(hub(data_set))


def test_a_failing_network_is_worth_another_try(bench, monkeypatch) -> None:
    def load_dataset(*_args, **_options):
        raise ConnectionError("Couldn't reach the Hub")

    monkeypatch.setattr("datasets.load_dataset", load_dataset)
    with pytest.raises(OSError, match=r"source 'h': data set 'a/b', split 'train' could not be read from the hub"):
        bench.corpus(hub("a/b"))


def test_an_unknown_data_set_is_not(bench, monkeypatch) -> None:
    from datasets.exceptions import DatasetNotFoundError

    def load_dataset(*_args, **_options):
        raise DatasetNotFoundError("Dataset 'a/b' doesn't exist on the Hub")

    monkeypatch.setattr("datasets.load_dataset", load_dataset)
    with pytest.raises(InputError, match="cannot be opened: DatasetNotFoundError"):
        bench.corpus(hub("a/b"))
