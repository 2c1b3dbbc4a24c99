"""Every bad input is a clear error or a counted rejection."""

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from tasks.contract import InputError

MEBIBYTE = 1024 * 1024


def test_invalid_utf8_rejects_that_line_only(bench) -> None:
    outcome = bench.txt(b"unua linio\ndua \xff\xfe linio\ntria linio\n")
    assert outcome.all_texts() == {"unua linio", "tria linio"}
    assert outcome.rejected() == {"invalid-utf8": 1}
    assert outcome.examples("invalid-utf8") == [(2, "dua \ufffd\ufffd linio")]


def test_surrogates_in_utf8_are_invalid(bench) -> None:
    assert bench.txt(b"bona\n\xed\xa0\x80\n").rejected() == {"invalid-utf8": 1}


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf", gzip.compress(b""), zstandard.compress(b"")])
def test_an_empty_file_is_an_error(bench, content: bytes) -> None:
    with pytest.raises(InputError, match=r"source 'a', file 'a.txt': the file is empty"):
        bench.txt(content)


def test_a_missing_file_names_path_and_data_root(bench) -> None:
    with pytest.raises(InputError, match=r"source 'a', file 'sub/no.txt': there is no such file .*root .*data root;"):
        bench.corpus(bench.source("sub/no.txt"))


def test_a_missing_file_is_found_before_anything_is_read(bench) -> None:
    bench.write("a.txt", "")
    with pytest.raises(InputError, match=r"source 'b'.*no such file"):
        bench.corpus(bench.source("a.txt"), bench.source("no.txt", name="b"))


def test_a_folder_is_an_error(bench) -> None:
    (bench.root / "a.txt").mkdir()
    with pytest.raises(InputError, match=r"source 'a', file 'a.txt': .* is a folder"):
        bench.corpus(bench.source("a.txt"))


def test_crlf_and_bom_are_stripped_without_rejection(bench) -> None:
    outcome = bench.txt(b"\xef\xbb\xbfunua\r\ndua\r\n")
    assert outcome.all_texts() == {"unua", "dua"}
    assert outcome.rejected() == {}


def test_nul_rejects_the_line_and_other_controls_are_removed(bench) -> None:
    outcome = bench.txt(b"u\x00nua\ndu\x07a \x1b[0m\ntri\ta\n")
    assert outcome.all_texts() == {"dua [0m", "tri a"}
    assert outcome.rejected() == {"control-characters": 1}
    assert outcome.examples("control-characters") == [(1, "u\u2400nua")]


def test_a_50_mb_line_is_rejected_without_being_held(bench) -> None:
    bench.write("a.txt", b"mallonga\n" + b"x" * (50 * MEBIBYTE) + b"\nfina linio")
    outcome = bench.corpus(bench.source("a.txt"))
    assert outcome.all_texts() == {"mallonga", "fina linio"}
    assert outcome.rejected() == {"too-long": 1}
    assert outcome.examples("too-long") == [(2, "x" * 200)]
    assert outcome.result.summary["read_bytes"] == len("mallonga") + 50 * MEBIBYTE + len("fina linio")


@pytest.mark.parametrize("before", [0, 3 * MEBIBYTE, 4 * MEBIBYTE - 10])
def test_the_limit_of_a_line_does_not_depend_on_where_it_stands(bench, before: int) -> None:
    lines = [b"y" * before, b"z" * (4 * MEBIBYTE), b"z" * (4 * MEBIBYTE + 1), b"fino"]
    outcome = bench.txt(b"\n".join(lines), max_characters=10**8)
    assert outcome.all_texts() == {line.decode() for line in (lines[0], lines[1], lines[3]) if line}
    assert outcome.rejected()["too-long"] == 1


def test_a_long_line_at_the_end_is_counted(bench) -> None:
    outcome = bench.txt(b"unua\n" + b"x" * (9 * MEBIBYTE))
    assert outcome.rejected() == {"too-long": 1}
    assert outcome.result.summary["read_bytes"] == 4 + 9 * MEBIBYTE


def test_tsv_rows_with_another_number_of_columns_are_rejected(bench) -> None:
    bench.write("a.tsv", "src\ttgt\none\tunu\ntwo\nthree\ttri\tx\n\nfour\tkvar\n")
    outcome = bench.bitext(bench.source("a.tsv"))
    assert sorted(outcome.pairs()) == [("four", "kvar"), ("one", "unu")]
    assert outcome.rejected() == {"wrong-columns": 3}
    assert outcome.examples("wrong-columns")[:2] == [(3, "two"), (4, "three\u2409tri\u2409x")]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"text_column": "teksto"}, r"line 1: there is no column 'teksto'; the columns are: src, tgt"),
        ({"text_column": 2}, r"line 1: there is no column number 2: the columns are 0 to 1"),
        ({"text_column": "src", "header": False}, r"`header` is false; give its number"),
    ],
)
def test_a_missing_tsv_column_lists_the_columns(bench, options: dict[str, object], problem: str) -> None:
    bench.write("a.tsv", "src\ttgt\none\tunu\n")
    with pytest.raises(InputError, match=problem):
        bench.corpus(bench.source("a.tsv", **options))


def test_a_tsv_with_only_a_header_is_an_error(bench) -> None:
    bench.write("a.tsv", "src\ttgt\n")
    with pytest.raises(InputError, match="header and no rows"):
        bench.bitext(bench.source("a.tsv"))


def test_bad_json_lines_are_counted_by_reason(bench) -> None:
    lines = [
        '{"text": "bona"}', "ne json", '["text"]', '{"title": "x"}', '{"text": 3}', '{"text": null}', "",
        '{"text": ""}', '{"text": "\\ud800"}', '{"text": "n\\u0000l"}', "[" * 100_000, '{"n": ' + "9" * 10_000 + "}",
    ]  # fmt: skip
    bench.write("a.jsonl", "\n".join(lines) + "\n")
    outcome = bench.corpus(bench.source("a.jsonl"))
    assert outcome.all_texts() == {"bona"}
    assert outcome.rejected() == {
        "control-characters": 1, "empty": 2, "invalid-utf8": 1, "missing-text": 3, "not-json": 4
    }  # fmt: skip
    assert [line for line, _ in outcome.examples("not-json")] == [2, 3, 11, 12]


def test_jsonl_needs_a_key_by_name(bench) -> None:
    bench.write("a.jsonl", "{}\n")
    with pytest.raises(InputError, match="column 0 is a number"):
        bench.corpus(bench.source("a.jsonl", text_column=0))


@pytest.mark.parametrize(("source", "target"), [(3, 5), (5, 3), (400_000, 400_001), (900_000, 2)])
def test_an_unequal_moses_pair_names_both_true_counts(bench, source: int, target: int) -> None:
    bench.write("t.en", "a sentence of words\n" * source)
    bench.write("t.eo", "frazo\n" * target)
    with pytest.raises(InputError, match=rf"'t.en' has {source} and 't.eo' has {target};"):
        bench.bitext(bench.source("t.en", target_path="t.eo"))


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_truncated_compression_is_an_error(bench, pack) -> None:
    packed = pack("\n".join(f"linio {i}" for i in range(100_000)).encode())
    for size in (5, len(packed) // 2, len(packed) - 1):
        with pytest.raises(InputError, match=r"source 'a', file 'a.txt': the .* data is damaged or cut short"):
            bench.txt(packed[:size])


def test_damaged_compression_is_an_error(bench) -> None:
    packed = bytearray(gzip.compress(b"linio\n" * 1000))
    packed[len(packed) // 2] ^= 255
    with pytest.raises(InputError, match="damaged or cut short"):
        bench.txt(bytes(packed))


@pytest.mark.parametrize(
    ("content", "problem"),
    [("a b".encode("utf-16"), "UTF-16"), (b"BZh91AY", "bzip2"), (b"\xfd7zXZ\x00\x00", "xz"), (b"PK\x03\x04", "zip")],
)
def test_other_formats_are_refused_by_name(bench, content: bytes, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        bench.txt(content)


def test_all_text_rejected_gives_the_table_of_reasons(bench) -> None:
    with pytest.raises(InputError, match=r"no training text is left of 3 texts read") as caught:
        bench.txt("Привет\nab\n\n", scripts=("Latin",), min_characters=3)
    assert "wrong-script" in str(caught.value)
    assert "too-short" in str(caught.value)
    assert "line 1: 'Привет'" in str(caught.value)


def test_parquet_without_the_column_lists_the_columns(bench) -> None:
    pq.write_table(pa.table({"teksto": ["a"], "n": [1]}), bench.root / "a.parquet")
    with pytest.raises(InputError, match=r"no column 'text'; the columns are: teksto \(string\), n \(int64\)"):
        bench.corpus(bench.source("a.parquet"))
    with pytest.raises(InputError, match="column 'n' holds int64, not text"):
        bench.corpus(bench.source("a.parquet", text_column="n"))
    with pytest.raises(InputError, match="no column 2;"):
        bench.corpus(bench.source("a.parquet", text_column=2))


@pytest.mark.parametrize("cut", [0, 4, 400])
def test_a_damaged_parquet_file_is_an_error(bench, cut: int) -> None:
    pq.write_table(pa.table({"text": [f"linio {i}" for i in range(1000)]}), bench.root / "b.parquet")
    bench.write("a.parquet", (bench.root / "b.parquet").read_bytes()[:cut])
    with pytest.raises(InputError, match="not a Parquet file that can be read"):
        bench.corpus(bench.source("a.parquet"))


def test_damaged_parquet_pages_are_an_error(bench) -> None:
    table = pa.table({"text": [f"linio {i}" for i in range(1000)]})
    pq.write_table(table, bench.root / "a.parquet", compression="zstd", use_dictionary=False)
    content = bytearray((bench.root / "a.parquet").read_bytes())
    content[4:300] = bytes(296)
    bench.write("a.parquet", bytes(content))
    with pytest.raises(InputError, match="Parquet data is damaged"):
        bench.corpus(bench.source("a.parquet"))


def test_a_parquet_file_without_rows_is_an_error(bench) -> None:
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), bench.root / "a.parquet")
    with pytest.raises(InputError, match="no rows"):
        bench.corpus(bench.source("a.parquet"))


def test_parquet_bytes_that_are_not_utf8_are_rejected(bench) -> None:
    table = pa.table({"text": pa.array([b"bona", b"\xff", None, b"x" * (5 * MEBIBYTE)], pa.binary())})
    pq.write_table(table, bench.root / "a.parquet")
    outcome = bench.corpus(bench.source("a.parquet"), max_characters=10**8)
    assert outcome.rejected() == {"invalid-utf8": 1, "missing-text": 1, "too-long": 1}


def test_formats_that_do_not_fit_the_stage_are_refused(bench) -> None:
    bench.write("a.txt", "x\n")
    with pytest.raises(InputError, match="format 'moses' is parallel text"):
        bench.corpus(bench.source("a.txt", target_path="a.txt"))
    with pytest.raises(InputError, match="format 'txt' holds one text a line"):
        bench.bitext(bench.source("a.txt"))


def test_examples_are_short_and_first_in_input_order(bench) -> None:
    lines = ["ж" * 300 + str(i) for i in range(20)]
    outcome = bench.txt("\n".join([*lines, "latina"]), scripts=("Latin",))
    assert outcome.examples("wrong-script") == [(i, "ж" * 200) for i in range(1, 6)]
    assert outcome.rejected() == {"wrong-script": 20}


def test_rejected_bytes_are_those_read(bench) -> None:
    outcome = bench.txt("  ab  \nкот\nкот\nbona teksto\n", scripts=("Latin",), min_characters=3)
    table = pq.read_table(Path(outcome.out) / "rejections.parquet").to_pylist()
    assert table == [
        {"corpus": "a", "reason": "too-short", "count": 1, "bytes": 6},
        {"corpus": "a", "reason": "wrong-script", "count": 2, "bytes": 12},
    ]
