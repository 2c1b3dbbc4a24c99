import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.report.vocabulary import BYTES, from_byte_alphabet, load_vocabulary

ALPHABET = {byte: character for character, byte in BYTES.items()}


def test_byte_alphabet_has_every_byte_once():
    assert sorted(BYTES.values()) == list(range(256))
    assert BYTES["Ġ"] == 0x20
    assert BYTES["Ċ"] == 0x0A


@given(st.text(alphabet=st.characters(exclude_characters=" ", exclude_categories=["Cs"])))
def test_byte_alphabet_is_read_back(text):
    assert from_byte_alphabet("".join(ALPHABET[byte] for byte in text.encode())) == text


def test_incomplete_characters_stay_as_they_are():
    assert from_byte_alphabet("Ġthe") == "▁the"
    assert from_byte_alphabet("Ä") == "Ä"


@pytest.mark.parametrize("node", ["tokenizer", "source.tokenizer"])
def test_pieces_cover_the_sentence(artifacts, node):
    vocabulary = load_vocabulary(artifacts[node])
    text = "la ĝardeno"
    assert vocabulary.byte_level == (node == "source.tokenizer")
    shown = "".join(vocabulary.segment(text)).replace("…", "")
    assert shown.replace("▁", " ").strip() == text


def test_folder_without_tokenizer_is_none(tmp_path):
    assert load_vocabulary(tmp_path) is None
    assert load_vocabulary(None) is None
