"""The text a vocabulary is trained on: groups of languages, and limits of each."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs.schema import TokenizerConfig
from storage.tables import write_table
from tasks.tokenizer.training_text import (
    TrainingText,
    corpora_of,
    count_words,
    limited_texts,
    source_texts_of,
    validation_texts,
)


def flat(batches):
    return [text for batch in batches for text in batch]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 0),
        ("  ", 0),
        ("a red house, isn't it?", 5),
        ("no-break\u00a0space and ideographic\u3000one", 5),
        ("今天天气很好", 6),
        ("今天 good 天气", 5),
        ("วันนี้", 6),  # letters and marks, each counted
        ("ひらカタ", 4),
        ("오늘은 날씨가", 2),
        ("आज मौसम", 2),
    ],
)
def test_words(text, words):
    assert count_words([text]).tolist() == [words]


def test_the_limit_is_kept_and_the_choice_is_random_and_fixed(helpers, tmp_path):
    texts = [f"sentence {i} of five words" for i in range(1000)]
    path = helpers["write_corpus"](tmp_path, texts, []) / "train.parquet"
    taken = flat(limited_texts(path, 10**6, 501, 0))
    assert len(taken) == 100
    assert taken == flat(limited_texts(path, 10**6, 501, 0))
    assert taken != flat(limited_texts(path, 10**6, 501, 1))
    assert taken == [text for text in texts if text in set(taken)]  # in file order
    assert 300 < np.mean([texts.index(text) for text in taken]) < 700
    assert flat(limited_texts(path, 10**6, 5000, 0)) == texts
    assert len(flat(limited_texts(path, 50, 501, 0))) == 50


def test_one_sentence_longer_than_the_limit(helpers, tmp_path):
    path = helpers["write_corpus"](tmp_path, ["one two three", "four five six"], []) / "train.parquet"
    assert len(flat(limited_texts(path, 10, 2, 0))) == 1


@settings(max_examples=40, deadline=None)
@given(lengths=st.lists(st.integers(0, 6), min_size=1, max_size=30), words=st.integers(1, 60), seed=st.integers(0, 3))
def test_never_more_words_than_the_limit(tmp_path_factory, lengths, words, seed):
    texts = [" ".join(["w"] * length) for length in lengths]
    path = tmp_path_factory.mktemp("corpus") / "train.parquet"
    write_table(pa.table({"text": texts}), path)
    taken = flat(limited_texts(path, 100, words, seed))
    total = sum(len(text.split()) for text in taken)
    assert total <= words or len(taken) == 1
    if sum(lengths) <= words:
        assert taken == texts


def test_a_group_is_each_language_in_the_order_of_the_codes(helpers, tmp_path):
    inputs = {
        name: helpers["write_corpus"](tmp_path / name, [f"{name} {i}" for i in range(20)], [f"held {name}"])
        for name in ("corpus.sw", "corpus", "corpus.en")
    }
    corpora = corpora_of({**inputs, "helper": tmp_path})
    assert [folder.name for folder in corpora] == ["corpus", "corpus.en", "corpus.sw"]
    texts = TrainingText(corpora, TokenizerConfig(max_tokens_per_language=10, max_sentences=8))
    taken = flat(texts())
    assert [sum(text.startswith(f"{name} ") for text in taken) for name in ("corpus", "corpus.en", "corpus.sw")] == [
        5, 5, 5,
    ]  # fmt: skip
    assert taken == flat(texts())
    assert texts.sentences == 15
    assert len(flat(TrainingText(corpora, TokenizerConfig(max_sentences=8))())) == 24
    assert flat(validation_texts(corpora)) == ["held corpus", "held corpus.en", "held corpus.sw"]


def test_every_language_of_a_group_gets_tokens(helpers, tmp_path):
    own = helpers["write_corpus"](tmp_path / "own", helpers["sentences"](300, 1), ["kali mo"])
    other = helpers["write_corpus"](tmp_path / "other", ["დღეს კარგი ამინდია, ხომ არის კარგი დღე"] * 50, ["კარგი დღე"])
    config = TokenizerConfig(vocab_size=480)
    alone = helpers["run"](own, tmp_path / "alone", config)
    both = helpers["run"](own, tmp_path / "both", config, {"corpus.ka": other})
    assert (alone.summary["training_sentences"], both.summary["training_sentences"]) == (300, 350)

    def georgian(folder):
        from tokenizers import Tokenizer

        return len(Tokenizer.from_file(str(folder / "tokenizer.json")).encode("კარგი დღე").tokens)

    assert georgian(tmp_path / "both") < georgian(tmp_path / "alone") / 3
    # tokens are counted on the language's own text
    assert both.summary["tokens"] < 2 * alone.summary["tokens"]


def test_text_of_the_source_language(helpers, tmp_path):
    assert source_texts_of({"corpus": tmp_path}, 0) is None
    write_table(pa.table({"source": ["a house"], "target": ["domo"]}), tmp_path / "train.parquet")
    assert flat(source_texts_of({"bitext": tmp_path}, 0)()) == ["a house"]
    corpus = helpers["write_corpus"](tmp_path / "corpus", ["a garden"], [])
    assert flat(source_texts_of({"bitext": tmp_path, "source_corpus": corpus}, 0)()) == ["a garden"]
