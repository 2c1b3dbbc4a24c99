import gzip
import io
import itertools
import lzma
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.alignment import text_lines
from tasks.alignment.pharaoh import format_pharaoh, lines_of, parse_pharaoh, spread
from tasks.alignment.plain_text import TextInput, read_text
from tasks.alignment.word_table import WordTable, buffers
from tasks.contract import InputError

BLANKS = b" \t\r\v\f"


@pytest.fixture
def read(tmp_path):
    """Reads an input; gives the sentences back as lists of words, and the result."""

    def run(vocabulary=None, threads=0, **options):
        result = read_text(TextInput(**options), tmp_path / "work", vocabulary, threads)
        return pairs_of(result), result

    return run


@pytest.fixture
def write(tmp_path):
    """Writes bytes or lines into a file; gives its path."""

    def run(name, content):
        if isinstance(content, list):
            content = "".join(line + "\n" for line in content).encode()
        path = tmp_path / name
        path.write_bytes(content)
        return str(path)

    return run


def pairs_of(result):
    words = [texts.to_pylist() for texts in result.words]
    sides = []
    for side, texts in zip(("source", "target"), words, strict=True):
        numbers, offsets = getattr(result.bitext, side), getattr(result.bitext, f"{side}_offsets")
        sides.append([[texts[n] for n in numbers[a:b]] for a, b in itertools.pairwise(offsets)])
    return list(zip(*sides, strict=True))


def slow_words(line):
    """Words of a line of bytes, by the definition."""
    words, word = [], b""
    for byte in line:
        if byte in BLANKS:
            words, word = words + [word] * bool(word), b""
        else:
            word += bytes([byte])
    return words + [word] * bool(word)


def test_two_files_become_pairs_of_words_numbered_by_first_occurrence(read, write):
    pairs, result = read(source=write("a", ["the old house", "the river"]), target=write("b", ["la casa", "el río"]))
    assert pairs == [(["the", "old", "house"], ["la", "casa"]), (["the", "river"], ["el", "río"])]
    assert result.words[0].to_pylist() == ["the", "old", "house", "river"]
    assert result.bitext.source.tolist() == [0, 1, 2, 0, 3]
    assert result.bitext.source.dtype == np.int32
    assert result.bitext.source_words == 4
    assert result.rows.tolist() == [0, 1]
    assert result.notes == ()


@pytest.mark.parametrize("kind", ["one file", "standard input", "parquet", "gz", "zst", "xz", "crlf", "bom", "unended"])
def test_every_format_gives_the_same_pairs(read, write, tmp_path, monkeypatch, kind):
    source, target = ["the old house", "a b", "x"], ["la casa vieja", "c", "y z"]
    lines = [f"{a} ||| {b}" for a, b in zip(source, target, strict=True)]
    expected = [(a.split(), b.split()) for a, b in zip(source, target, strict=True)]
    text = "".join(line + "\n" for line in lines).encode()
    if kind == "standard input":
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        options = {"both": "-"}
    elif kind == "parquet":
        pq.write_table(pa.table({"source": source, "target": target, "more": [1, 2, 3]}), tmp_path / "t.parquet")
        options = {"both": str(tmp_path / "t.parquet")}
    else:
        packed = {
            "gz": gzip.compress,
            "zst": zstandard.compress,
            "xz": lzma.compress,
            "crlf": lambda raw: raw.replace(b"\n", b"\r\n"),
            "bom": lambda raw: b"\xef\xbb\xbf" + raw,
            "unended": lambda raw: raw[:-1],
        }.get(kind, bytes)(text)
        options = {"both": write(f"text.{kind}", packed)}
    pairs, result = read(**options)
    assert pairs == expected
    notes = {"crlf": "3 line(s) end in CR LF", "unended": "no line feed"}
    assert [notes[kind] in note for note in result.notes] == [True] if kind in notes else result.notes == ()


def test_lines_that_cannot_be_aligned_are_left_out_counted_and_leave_their_number(read, write):
    lines = [
        "a ||| b",
        "",
        "||| b",
        "a |||",
        "a b",
        "a ||| b ||| c",
        "a b c d ||| e",
        "|||",
        "c ||| d",
        "a|||b",
        "e ||| f",
    ]
    pairs, result = read(both=write("t", lines), max_words=3)
    assert pairs == [(["a"], ["b"]), (["c"], ["d"]), (["e"], ["f"])]
    assert result.rows.tolist() == [0, 8, 10]
    assert (result.read, result.left_out) == (11, 8)
    assert result.notes == (
        "4 lines (the first is line 2) left out: a side without a word",
        "line 7 left out: a side of more than 3 words",
        "2 lines (the first is line 5) left out: no separator ` ||| `",
        "line 6 left out: more than one separator ` ||| `",
        "8 of 11 lines left out in all; their lines of links are empty",
    )


def test_words_of_left_out_lines_are_not_in_the_vocabulary(read, write):
    _, result = read(both=write("t", ["lost |||", "kept ||| also"]))
    assert [texts.to_pylist() for texts in result.words] == [["kept"], ["also"]]


def test_in_two_files_the_separator_is_a_word(read, write):
    pairs, _ = read(source=write("a", ["x ||| y", "p"]), target=write("b", ["|||", "q ||| q"]))
    assert pairs == [(["x", "|||", "y"], ["|||"]), (["p"], ["q", "|||", "q"])]


def test_white_space_and_control_characters(read, write):
    pairs, result = read(both=write("t", b"\ta\tb  c\x01d \xc2\xa0 e\x00 ||| \vx\fy\rz \r\n plain ||| words \n"))
    assert pairs == [(["a", "b", "c\x01d", "\xa0", "e\0"], ["x", "y", "z"]), (["plain"], ["words"])]
    notes = " ".join(result.notes)
    assert "a tab in line 1," in notes
    assert "control characters in line 1," in notes


def test_bytes_that_are_not_utf8_are_replaced_and_their_lines_counted(read, write):
    raw = b"good ||| bon\n\xff\xe9 x ||| y\xc3\n \xed\xa0\x80 ||| z\nend ||| fin\n"
    pairs, result = read(both=write("t", raw))
    assert pairs[1:3] == [(["��", "x"], ["y�"]), (["���"], ["z"])]
    assert len(pairs) == 4
    assert any("not UTF-8 in 2 line(s)" in note and "line 2)" in note for note in result.notes)


@pytest.mark.parametrize("separated", [True, False])
@settings(max_examples=60, deadline=None)
@given(
    lines=st.lists(
        st.lists(st.sampled_from([b"a", b"bb", b"|||", b" ", b"\t", b"\r", b"\xc3\xa9", b"\x02", b"||"]), max_size=12),
        max_size=12,
    )
)
def test_any_text_is_split_as_the_definition_says(tmp_path_factory, separated, lines):
    folder = tmp_path_factory.mktemp("text")
    text = [b"".join(line) for line in lines]
    (folder / "a").write_bytes(b"".join(line + b"\n" for line in text))
    if separated:
        options = TextInput(both=str(folder / "a"), max_words=5)
    else:
        options = TextInput(source=str(folder / "a"), target=str(folder / "a"), max_words=5)
    expected, rows = [], []
    for row, line in enumerate(text):
        words = slow_words(line)
        if separated:
            if words.count(b"|||") != 1:
                continue
            cut = words.index(b"|||")
            sides = words[:cut], words[cut + 1 :]
        else:
            sides = words, words
        if min(map(len, sides)) > 0 and max(map(len, sides)) <= 5:
            expected.append(tuple([word.decode() for word in side] for side in sides))
            rows.append(row)
    result = read_text(options, folder / "work", threads=1)
    assert pairs_of(result) == expected
    assert result.rows.tolist() == rows
    assert result.read == len(text)


def test_blocks_and_threads_change_nothing(read, write, monkeypatch):
    random = np.random.default_rng(3)
    sides = [
        [" ".join(f"w{n}" for n in random.integers(0, 900, random.integers(0, 30))) for _ in range(800)] for _ in "ab"
    ]
    options = {"source": write("a", sides[0]), "target": write("b", sides[1])}
    pairs, result = read(**options)
    assert [pair[0] for pair in pairs] == [a.split() for a, b in zip(*sides, strict=True) if a and b]
    monkeypatch.setattr(text_lines, "BLOCK_BYTES", 700)
    again, small = read(threads=1, **options)
    assert again == pairs
    assert small.words[1].equals(result.words[1])
    assert small.rows.tolist() == result.rows.tolist()


def test_lowercase_in_every_script(read, write):
    pairs, _ = read(both=write("t", ["The THE ||| ДОМ Дом ÉTÉ"]), lowercase=True)
    assert pairs == [(["the", "the"], ["дом", "дом", "été"])]


def test_words_of_a_given_vocabulary_keep_their_numbers_and_others_follow(read, write):
    vocabulary = (pa.array(["b", "never", "a"]), pa.array(["x"]))
    _, result = read(vocabulary, both=write("t", ["a new b ||| x y", "new a ||| y x"]))
    assert result.bitext.source.tolist() == [2, 3, 0, 3, 2]
    assert result.bitext.target.tolist() == [0, 1, 1, 0]
    assert (result.bitext.source_words, result.bitext.target_words) == (4, 2)


def test_different_numbers_of_lines_are_an_error_that_names_both(read, write):
    with pytest.raises(InputError, match=r"a has 3 lines and .*b 5: line n of one"):
        read(source=write("a", ["x"] * 3), target=write("b", ["y"] * 5))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("utf16", "a ||| b".encode("utf-16"), "is UTF-16, not UTF-8"),
        ("t.zip", b"PK\x03\x04rest of it", "is a zip archive"),
        ("t.bz2", b"BZh91AY&SY", "compressed with bzip2"),
        ("cut.gz", gzip.compress(b"a ||| b\n" * 4000)[:-30], "damaged or cut short"),
        ("cut.zst", zstandard.compress(np.random.default_rng(1).bytes(50_000))[:-900], "damaged or cut short"),
        ("cut.xz", lzma.compress(b"a ||| b\n" * 4000)[:-30], "damaged or cut short"),
        ("not.parquet", b"PAR1 and no more", "no readable Parquet file"),
        ("named", b"PAR1 and no more", "under a name that ends in .parquet"),
    ],
)
def test_files_that_cannot_be_read_say_why(read, write, name, content, message):
    with pytest.raises(InputError, match=message):
        read(both=write(name, content))


def test_a_missing_file_a_folder_and_a_missing_column(read, tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read(both=str(tmp_path / "nothing"))
    with pytest.raises(InputError, match="is a folder"):
        read(both=str(tmp_path))
    pq.write_table(pa.table({"source": ["a"], "translation": ["b"]}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match="no column target; its columns are: source, translation"):
        read(both=str(tmp_path / "t.parquet"))
    pq.write_table(pa.table({"source": ["a"], "target": [["b"]]}), tmp_path / "u.parquet")
    with pytest.raises(InputError, match="the column target is list"):
        read(both=str(tmp_path / "u.parquet"))


def test_parquet_rows_with_nulls_and_line_feeds(read, tmp_path):
    table = pa.table({"source": ["a\nb", None, "c"], "target": ["x", "y", "||| z"]})
    pq.write_table(table, tmp_path / "t.parquet")
    pairs, result = read(both=str(tmp_path / "t.parquet"))
    assert pairs == [(["a", "b"], ["x"]), (["c"], ["|||", "z"])]
    assert result.rows.tolist() == [0, 2]


def test_a_line_without_end_is_an_error(read, write, monkeypatch):
    monkeypatch.setattr(text_lines, "BLOCK_BYTES", 2**16)
    monkeypatch.setattr(text_lines, "LONGEST_LINE", 2**20)
    with pytest.raises(InputError, match="line 2: more than 1 MiB without a line feed"):
        read(both=write("t", b"a ||| b\n" + b"x" * 2**21))


def test_an_empty_text_has_no_pairs(read, write):
    pairs, result = read(both=write("t", b""))
    assert pairs == []
    assert result.read == 0
    assert len(result.bitext) == 0


def test_many_words_are_found_again_after_the_table_has_grown():
    texts = pa.array([f"word{number}" for number in range(150_000)])
    table = WordTable("words", texts)
    assert table.texts().equals(texts)
    assert len(table) == 150_000
    with pytest.raises(InputError, match="1 words of the vocabulary are there twice"):
        WordTable("words", pa.array(["a", "b", "a"]))


def test_pharaoh_text_is_read_and_written():
    links = parse_pharaoh(b"0-0 10-2 999-1000\n\n3-7\n\n")
    texts = format_pharaoh(links)
    assert texts.to_pylist() == ["0-0 10-2 999-1000", "", "3-7", ""]
    assert bytes(lines_of(texts)) == b"0-0 10-2 999-1000\n\n3-7\n\n"
    assert spread(texts, np.array([1, 2, 3, 5]), 7).to_pylist() == ["", "0-0 10-2 999-1000", "", "3-7", "", "", ""]
    data, first = buffers(texts.slice(2, 1))
    assert bytes(data) == b"3-7"
    assert first.tolist() == [0, 3]
