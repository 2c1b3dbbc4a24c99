"""Stage `fertility` and its formula."""

import numpy as np
import pyarrow.parquet as pq
import pytest
import regex
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer

from configs.schema import FertilityConfig
from tasks.contract import InputError, StageContext, load_stage
from tasks.tokenizer.fertility import measure, words_touched


@pytest.fixture(scope="module")
def byte_level():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(["the house and the garden", "a red house"] * 5, trainer)
    return tokenizer


def slow(tokenizer, texts):
    """Words cut in two or more, by the characters of each token."""
    words = cut = tokens = 0
    for text in texts:
        encoding = tokenizer.encode(text, add_special_tokens=False)
        tokens += len(encoding.ids)
        for match in regex.finditer(r"[\p{L}\p{M}\p{N}]+", text):
            touching = [
                token
                for token, (start, end) in zip(encoding.tokens, encoding.offsets, strict=True)
                if start < match.end() and end > match.start() and token.strip("▁Ġ ")
            ]
            words += 1
            cut += len(touching) > 1
    return words, cut, tokens


TEXTS = ["the house, a garden", " two  spaces ", "", "नमस्ते 12 é", "12 34", "до-ми ŝaka's"]


def test_by_hand():
    # "ab cde": tokens "ab" (0-2), " c" (2-4), "d" (4-5), "e" (5-6): the second word has three
    words, tokens = np.array([[0, 2], [3, 6]]), np.array([[0, 2], [2, 4], [4, 5], [5, 6]])
    assert words_touched(words, tokens).tolist() == [1, 3]
    # two byte tokens of one character touch it both
    assert words_touched(np.array([[0, 1]]), np.array([[0, 1], [0, 1]])).tolist() == [2]


def test_equals_slow_count_for_byte_level(byte_level):
    found = measure(byte_level, [TEXTS[:2], TEXTS[2:]])
    assert (found.words, found.continued_words, found.tokens) == slow(byte_level, TEXTS)
    assert found.characters == sum(map(len, TEXTS))
    assert found.bytes == sum(len(text.encode()) for text in TEXTS)


def test_equals_slow_count_for_sentencepiece(trained):
    tokenizer = AutoTokenizer.from_pretrained(str(trained))
    found = measure(tokenizer, [TEXTS])
    assert (found.words, found.continued_words, found.tokens) == slow(tokenizer.backend_tokenizer, TEXTS)


def test_a_lone_word_start_does_not_cut_a_word(trained):
    tokenizer = AutoTokenizer.from_pretrained(str(trained))
    assert tokenizer.tokenize("1") == ["▁", "1"]
    assert measure(tokenizer, [["1"]]).continued_words == 0


def test_stage_writes_both_tokenizers(corpus, trained, byte_level, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    byte_level.save(str(source / "tokenizer.json"))
    out = tmp_path / "out"
    out.mkdir()
    inputs = {"tokenizer": trained, "source_tokenizer": source, "corpus": corpus}
    result = load_stage("fertility").run(
        StageContext(config=FertilityConfig(max_sentences=50), inputs=inputs, out=out, work=out)
    )
    table = pq.read_table(out / "fertility.parquet").to_pylist()
    assert [row["tokenizer"] for row in table] == ["source", "target"]
    assert [row["sentences"] for row in table] == [50, 50]
    assert table[0]["words"] == table[1]["words"]
    assert table[0]["tokens_per_word"] == table[0]["tokens"] / table[0]["words"]
    assert result.summary["target_tokens_per_word"] < result.summary["source_tokens_per_word"]


def test_folder_without_tokenizer(corpus, trained, tmp_path):
    inputs = {"tokenizer": trained, "source_tokenizer": tmp_path, "corpus": corpus}
    with pytest.raises(InputError, match=r"source tokenizer: .* has no tokenizer"):
        load_stage("fertility").run(StageContext(config=FertilityConfig(), inputs=inputs, out=tmp_path, work=tmp_path))
