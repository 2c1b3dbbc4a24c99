import json
import shutil

import numpy as np
import pytest

from tasks.contract import InputError
from tasks.training import packing, token_stream
from tasks.training.packed_batch import PADDING
from tasks.training.packing import cut, pack, pack_documents
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
    monkeypatch.setattr(token_stream, "BATCH_ROWS", 7)
    pieces = pack(corpus_folder / "train.parquet", encoder, 16, tmp_path / "b")
    np.testing.assert_array_equal(whole.sequences, pieces.sequences)


def test_encodes_once_and_again_when_damaged(tmp_path, corpus_folder, tokenizer_folder, monkeypatch, caplog):
    encoder, calls = TextEncoder(tokenizer_folder), []
    encode = token_stream.encode_documents
    monkeypatch.setattr(
        token_stream, "encode_documents", lambda used, texts: calls.append(len(texts)) or encode(used, texts)
    )
    first = np.array(pack(corpus_folder / "train.parquet", encoder, 16, tmp_path).sequences)
    pack(corpus_folder / "train.parquet", encoder, 16, tmp_path)
    assert calls == [120]
    with (tmp_path / "tokens" / "tokens.int32").open("r+b") as file:
        file.truncate(100)
    again = pack(corpus_folder / "train.parquet", encoder, 16, tmp_path)
    assert calls == [120, 120]
    assert "made again" in caplog.text
    np.testing.assert_array_equal(again.sequences, first)


def test_what_a_kill_left_is_not_taken(tmp_path, corpus_folder, tokenizer_folder):
    (tmp_path / "tokens.unfinished").mkdir()
    (tmp_path / "tokens.unfinished" / "tokens.int32").write_bytes(b"\0" * 400)
    packed = pack(corpus_folder / "train.parquet", TextEncoder(tokenizer_folder), 16, tmp_path)
    assert packed.sequences[0, 0] == 1
    assert not (tmp_path / "tokens.unfinished").exists()


@pytest.mark.parametrize(
    ("texts", "message"),
    [(["QX"], r"4 tokens in 1 documents.*one sequence of 16: lower"), ([], "the training text is empty: look at")],
)
def test_too_little_text(tmp_path, corpus_writer, tokenizer_folder, texts, message):
    corpus = corpus_writer(tmp_path / "c", texts) / "train.parquet"
    with pytest.raises(InputError, match=message):
        pack(corpus, TextEncoder(tokenizer_folder), 16, tmp_path / "w")


def test_folder_without_tokenizer(tmp_path):
    with pytest.raises(InputError, match="has no tokenizer"):
        TextEncoder(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    (tmp_path / "tokenizer_config.json").write_text("{}")
    with pytest.raises(InputError, match="cannot be read"):
        TextEncoder(tmp_path)


def test_plain_rows_as_batches(tmp_path, corpus_folder, tokenizer_folder):
    packed = pack(corpus_folder / "train.parquet", TextEncoder(tokenizer_folder), 16, tmp_path)
    batch = packed.read(np.array([3, 0]))
    np.testing.assert_array_equal(batch.tokens, packed.sequences[[3, 0]])
    assert batch.documents.tolist() == [[3] * 16, [0] * 16]
    assert batch.positions.tolist() == [list(range(16))] * 2
    assert (batch.is_plain, batch.filled, packed.filled(np.array([1])).tolist()) == (True, 32, [16])


@pytest.fixture
def make_documents(tmp_path, corpus_writer, tokenizer_folder):
    """Packs texts by document: (texts, length, seed) -> rows and the tokens of each document."""

    def make(texts, length, seed=1, place="w"):
        corpus, encoder = corpus_writer(tmp_path / "c", texts) / "train.parquet", TextEncoder(tokenizer_folder)
        return pack_documents(corpus, encoder, length, tmp_path / place, seed), [encoder.encode([t]) for t in texts]

    return make


def all_rows(packed):
    return packed.read(np.arange(len(packed)))


def check_rows(packed, documents, length):
    """Every document is there once: whole in one row, or cut every `length` tokens; positions begin anew in each."""
    batch, found = all_rows(packed), {}
    for tokens, numbers, positions in zip(batch.tokens, batch.documents, batch.positions, strict=True):
        used = numbers != PADDING
        assert not used[np.argmin(used) :].any() or used.all(), "padding only at the end"
        assert (tokens[~used] == 0).all()
        assert positions[~used].tolist() == list(range(np.count_nonzero(~used)))
        for number in np.unique(numbers[used]):
            places = np.flatnonzero(numbers == number)
            assert (np.diff(places) == 1).all()
            assert positions[places].tolist() == list(range(len(places)))
            found.setdefault(number, []).append(tokens[places].tolist())
    expected = {}
    for number, document in enumerate(documents):
        parts = [document[start : start + length].tolist() for start in range(0, len(document), length)]
        if kept := [part for part in parts if len(part) > 1]:
            expected[number] = kept
    assert {n: sorted(parts) for n, parts in found.items()} == {n: sorted(parts) for n, parts in expected.items()}
    assert packed.tokens_in_rows == batch.filled == sum(len(part) for parts in expected.values() for part in parts)
    assert packed.filled(np.arange(len(packed))).sum() == packed.tokens_in_rows
    assert packed.tokens == sum(map(len, documents))


def test_documents_by_hand(make_documents):
    """Byte tokens of letters that no merge joins: rows of 8 hold 5 + 3 tokens, or a part of 8 of the long document."""
    packed, documents = make_documents(["QXZ", "Q", "QXZQXZQX"], 8)
    assert [len(document) for document in documents] == [5, 3, 10]
    batch = all_rows(packed)
    rows = sorted(zip(batch.documents.tolist(), batch.positions.tolist(), strict=True))
    assert rows == [
        ([0] * 5 + [1] * 3, [0, 1, 2, 3, 4, 0, 1, 2]),
        ([2] * 2 + [PADDING] * 6, [0, 1, 0, 1, 2, 3, 4, 5]),
        ([2] * 8, list(range(8))),
    ]
    assert packed.filling == 18 / 24


@pytest.mark.parametrize("length", [2, 7, 16, 64])
def test_every_document_is_in_the_rows(make_documents, monkeypatch, length):
    monkeypatch.setattr(packing, "WINDOW", 10)
    texts = ["QX" * (i * i % 23) for i in range(47)]
    packed, documents = make_documents(texts, length)
    check_rows(packed, documents, length)


def test_rows_are_read_in_any_order(make_documents):
    packed, _ = make_documents(["QX" * (i % 9) for i in range(40)], 16)
    whole, chosen = all_rows(packed), np.array([5, 0, 5, 2])
    part = packed.read(chosen)
    np.testing.assert_array_equal(part.tokens, whole.tokens[chosen])
    np.testing.assert_array_equal(part.documents, whole.documents[chosen])
    np.testing.assert_array_equal(part.positions, whole.positions[chosen])
    assert [len(piece) for piece in part.split(3)] == [3, 1]


def test_rows_are_made_once_for_one_length_and_seed(make_documents, tmp_path, monkeypatch):
    texts, calls, fill = ["QX" * (i % 9) for i in range(200)], [], packing.fill_rows
    monkeypatch.setattr(packing, "fill_rows", lambda *given: calls.append(1) or fill(*given))
    first = all_rows(make_documents(texts, 32)[0]).tokens
    np.testing.assert_array_equal(all_rows(make_documents(texts, 32)[0]).tokens, first)
    assert len(calls) == 1
    np.testing.assert_array_equal(all_rows(make_documents(texts, 32, place="other")[0]).tokens, first)
    assert not np.array_equal(all_rows(make_documents(texts, 32, seed=2)[0]).documents, first)
    assert make_documents(texts, 16, seed=2)[0].length == 16
    assert len(calls) == 4
    (tmp_path / "w" / "rows" / "starts.int64").write_bytes(b"")
    make_documents(texts, 16, seed=2)
    assert len(calls) == 5


def test_documents_without_predictions(tmp_path, corpus_writer, tokenizer_folder):
    encoder = TextEncoder(tokenizer_folder)
    encoder.bos = encoder.eos = None
    corpus = corpus_writer(tmp_path / "c", ["Q", ""]) / "train.parquet"
    with pytest.raises(InputError, match="1 tokens in 2 documents, none of them with the two tokens"):
        pack_documents(corpus, encoder, 16, tmp_path / "w", seed=1)


@pytest.mark.parametrize(("bos", "eos"), [(1, 2), (None, 2), (1, None), (None, None), (2, 2)])
def test_boundaries_of_documents(tokenizer_folder, bos, eos):
    encoder, texts = TextEncoder(tokenizer_folder), ["QX", "", "the cat sees", ""]
    encoder.bos, encoder.eos = bos, eos
    tokens, lengths = token_stream.encode_documents(encoder, texts)
    assert tokens.tolist() == encoder.encode(texts).tolist()
    assert lengths.tolist() == [len(encoder.encode([text])) for text in texts]


def test_other_tokens_in_transformers_are_refused(tmp_path, corpus_writer, tokenizer_folder):
    """Settings beside tokenizer.json that some classes of transformers obey instead of it."""
    folder = tmp_path / "tokenizer"
    shutil.copytree(tokenizer_folder, folder)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings |= {"add_prefix_space": True, "tokenizer_class": "GPT2TokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    corpus = corpus_writer(tmp_path / "c", ["</s> spelled out", "the river"]) / "train.parquet"
    with pytest.raises(InputError, match=r"for 'the river', but GPT2TokenizerFast .*add_prefix_space, for instance"):
        pack(corpus, TextEncoder(folder), 4, tmp_path / "w")
    del settings["add_prefix_space"]
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    pack(corpus, TextEncoder(folder), 4, tmp_path / "w")
