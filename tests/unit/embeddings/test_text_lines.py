"""Text files that a person gives."""

import gzip

import pytest

from tasks.contract import InputError
from tasks.embeddings.text_lines import numbered_lines
from tasks.embeddings.word_vectors import read_word_vectors


def test_lines_of_any_ending_without_a_byte_order_mark(tmp_path):
    path = tmp_path / "words.tsv"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\xc2\x85\x0bhalves\n\nlast")
    expected = [(1, "one"), (2, "two\x85\x0bhalves"), (3, ""), (4, "last")]
    assert list(numbered_lines(path, "dictionary")) == expected
    packed = tmp_path / "words.tsv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert list(numbered_lines(packed, "dictionary")) == expected


def test_files_that_cannot_be_read(tmp_path):
    path = tmp_path / "words.tsv"
    path.write_bytes(b"a\tb\n" + b"c\td\n" * 5000 + b"\xff\n")
    with pytest.raises(InputError, match=r"dictionary words.tsv, after line \d+: not UTF-8 \(invalid start byte\)"):
        list(numbered_lines(path, "dictionary"))
    with pytest.raises(InputError, match=r"dictionary none.tsv, after line 0: cannot be read: .*none.tsv"):
        list(numbered_lines(tmp_path / "none.tsv", "dictionary"))
    packed = tmp_path / "words.tsv.gz"
    packed.write_bytes(gzip.compress(b"a\tb\n" * 10_000)[:-20])
    with pytest.raises(InputError, match=r"dictionary words.tsv.gz, after line \d+: cannot be read"):
        list(numbered_lines(packed, "dictionary"))


def test_a_binary_file_of_another_format(tmp_path):
    pytest.importorskip("gensim", reason="gensim is not installed")
    path = tmp_path / "vectors.bin"
    path.write_bytes(b"no vectors")
    with pytest.raises(InputError, match=r"word vectors vectors.bin: not in fastText's binary format"):
        read_word_vectors(path)
