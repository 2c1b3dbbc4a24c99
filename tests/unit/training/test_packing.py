import numpy as np
import pytest

from tasks.contract import InputError
from tasks.training import packing
from tasks.training.packing import cut, pack
from tasks.training.text_encoder import TextEncoder


def test_cut_by_hand():
    assert cut(np.arange(11, dtype=np.int32), 4).tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert cut(np.arange(3, dtype=np.int32), 4).shape == (0, 4)


def test_documents_follow_one_another(tmp_path, corpus_writer, tokenizer_folder):
    """By hand: byte tokens of letters that no merge joins."""
    encoder = TextEncoder(tokenizer_folder)
    ids = {letter: encoder.encode([letter])[1] for letter in "QXZ"}
    assert encoder.encode(["QX"]).tolist() == [1, ids["Q"], ids["X"], 2]
    packed = pack(corpus_writer(tmp_path / "c", ["QX", "Z", ""]) / "train.parquet", encoder, 4, tmp_path / "w")
    assert packed.sequences.tolist() == [[1, ids["Q"], ids["X"], 2], [1, ids["Z"], 2, 1]]
    assert (packed.tokens, packed.documents, packed.sequences.dtype) == (9, 3, np.int32)


def test_special_tokens_in_a_text_are_text(tokenizer_folder):
    encoded = TextEncoder(tokenizer_folder).encode(["old <s>price</s> here"]).tolist()
    assert encoded.count(1) == 1
    assert encoded.count(2) == 1
    assert len(encoded) > 10, "the truncation saved in tokenizer.json must not be applied"


def test_batches_do_not_change_the_tokens(tmp_path, corpus_folder, tokenizer_folder, monkeypatch):
    encoder = TextEncoder(tokenizer_folder)
    whole = pack(corpus_folder / "train.parquet", encoder, 16, tmp_path / "a")
    monkeypatch.setattr(packing, "BATCH_ROWS", 7)
    pieces = pack(corpus_folder / "train.parquet", encoder, 16, tmp_path / "b")
    np.testing.assert_array_equal(whole.sequences, pieces.sequences)


def test_encodes_once_and_again_when_damaged(tmp_path, corpus_folder, tokenizer_folder, monkeypatch, caplog):
    encoder, calls = TextEncoder(tokenizer_folder), []
    encode = encoder.encode
    monkeypatch.setattr(encoder, "encode", lambda texts: calls.append(len(texts)) or encode(texts))
    first = np.array(pack(corpus_folder / "train.parquet", encoder, 16, tmp_path).sequences)
    pack(corpus_folder / "train.parquet", encoder, 16, tmp_path)
    assert calls == [120]
    with (tmp_path / "tokens" / "tokens.int32").open("r+b") as file:
        file.truncate(100)
    again = pack(corpus_folder / "train.parquet", encoder, 16, tmp_path)
    assert calls == [120, 120]
    assert "encoding again" in caplog.text
    np.testing.assert_array_equal(again.sequences, first)


def test_what_a_kill_left_is_not_taken(tmp_path, corpus_folder, tokenizer_folder):
    (tmp_path / "tokens.unfinished").mkdir()
    (tmp_path / "tokens.unfinished" / "tokens.int32").write_bytes(b"\0" * 400)
    packed = pack(corpus_folder / "train.parquet", TextEncoder(tokenizer_folder), 16, tmp_path)
    assert packed.sequences[0, 0] == 1
    assert not (tmp_path / "tokens.unfinished").exists()


@pytest.mark.parametrize(("texts", "tokens"), [(["QX"], 4), ([], 0)])
def test_too_little_text(tmp_path, corpus_writer, tokenizer_folder, texts, tokens):
    corpus = corpus_writer(tmp_path / "c", texts) / "train.parquet"
    with pytest.raises(InputError, match=rf"{tokens} tokens in {len(texts)} documents.*one sequence of 16: lower"):
        pack(corpus, TextEncoder(tokenizer_folder), 16, tmp_path / "w")


def test_folder_without_tokenizer(tmp_path):
    with pytest.raises(InputError, match="has no tokenizer"):
        TextEncoder(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    (tmp_path / "tokenizer_config.json").write_text("{}")
    with pytest.raises(InputError, match="cannot be read"):
        TextEncoder(tmp_path)
