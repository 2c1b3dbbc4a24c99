import numpy as np
import pytest

from configs.schema import MixtureConfig
from tasks.contract import InputError
from tasks.training.order import batch_indices
from tasks.training.text_encoder import TextEncoder
from tasks.training.training_text import training_text

FURTHER = [f"a {word} is not a {word}, number {i}" for i, word in enumerate(["house", "table", "spoon"] * 20)]


@pytest.fixture(scope="module")
def corpora(tmp_path_factory, corpus_folder, corpus_writer):
    folder = tmp_path_factory.mktemp("texts")
    return {
        "target": corpus_folder / "train.parquet",
        "source": corpus_writer(folder / "source", FURTHER) / "train.parquet",
        "fr": corpus_writer(folder / "fr", FURTHER[:20]) / "train.parquet",
    }


@pytest.fixture
def make_text(tmp_path, corpora, tokenizer_folder, make_phase):
    def make(place="work", **values):
        return training_text(corpora, TextEncoder(tokenizer_folder), make_phase(**values), tmp_path / place)

    return make


def test_one_text_is_read_as_before(make_text):
    text = make_text(seed=5)
    sequences = text.texts["target"].sequences
    for step in (0, 1, 50):
        expected = sequences[batch_indices(step, 6, len(sequences), seed=5)]
        np.testing.assert_array_equal(text.rows.read(step * 6, 6).tokens, expected)
    assert set(text.texts) == {"target"}, "the other texts are not read without a mixture"
    assert text.tokens_per_row == 16
    assert text.rows_of_epochs(2) == 2 * len(sequences)


@pytest.mark.parametrize("packing", ["plain", "documents"])
def test_shares_of_tokens(make_text, packing):
    text = make_text(packing=packing, sequence_length=32, mixture=MixtureConfig(shares={"target": 3, "source": 1}))
    assert dict(text.shares) == {"target": 0.75, "source": 0.25}
    seen = {part.name: part for part in text.rows.seen(10_000)}
    assert seen["source"].share == pytest.approx(0.25, abs=0.01)
    batch = text.rows.read(0, 10_000)
    assert sum(part.tokens for part in seen.values()) == batch.filled
    assert batch.filled / 10_000 == pytest.approx(text.tokens_per_row, rel=1e-3)
    rows = text.rows_of_epochs(3)
    assert {part.name: part for part in text.rows.seen(round(rows))}["target"].passes == pytest.approx(3, rel=0.02)


def test_temperature_reads_every_text(make_text):
    text = make_text(mixture=MixtureConfig(temperature=1e9, fixed={"source": 0.5}))
    assert dict(text.shares) == pytest.approx({"target": 0.25, "source": 0.5, "fr": 0.25}, abs=1e-6)


def test_tokens_seen_of_one_text(make_text):
    text = make_text(packing="documents", sequence_length=32)
    rows = len(text.texts["target"])
    for draws in (0, 1, rows, rows + 5):
        (seen,) = text.rows.seen(draws)
        assert (seen.name, seen.share, seen.passes) == ("target", 1.0, draws / rows)
        assert seen.tokens == (text.rows.read(0, draws).filled if draws else 0)


def test_each_text_is_encoded_once(make_text, monkeypatch):
    mixture = MixtureConfig(shares={"target": 0.5, "fr": 0.5})
    first = make_text(mixture=mixture).rows.read(0, 20).tokens
    monkeypatch.setattr("tasks.training.token_stream.encode_documents", None)
    np.testing.assert_array_equal(make_text(mixture=mixture).rows.read(0, 20).tokens, first)


def test_a_text_that_is_not_there(make_text):
    with pytest.raises(InputError, match=r"the mixture names \['sw'\], but the texts are \['fr', 'source', 'target'\]"):
        make_text(mixture=MixtureConfig(shares={"target": 0.5, "sw": 0.5}))


def test_a_text_that_is_too_short_is_named(tmp_path, corpora, corpus_writer, tokenizer_folder, make_phase):
    texts = {**corpora, "source": corpus_writer(tmp_path / "short", ["a"]) / "train.parquet"}
    phase = make_phase(mixture=MixtureConfig(shares={"target": 1, "source": 1}))
    with pytest.raises(InputError, match=r"text 'source' of the mixture: the training text has 3 tokens"):
        training_text(texts, TextEncoder(tokenizer_folder), phase, tmp_path / "work")
