"""Unigram and byte-level BPE: training, conversion, errors."""

import hashlib
import json
import os
import subprocess
import sys

import pytest
import sentencepiece as spm
from tokenizers import Tokenizer, models
from transformers import AutoTokenizer

from configs.schema import TokenizerConfig
from tasks.contract import InputError
from tasks.tokenizer.byte_level_bpe import train_byte_level_bpe
from tasks.tokenizer.convert import fast_tokenizer
from tasks.tokenizer.self_check import AWKWARD, check_tokenizer, compare
from tasks.tokenizer.sentencepiece_training import train_sentencepiece

UNIGRAM = TokenizerConfig(algorithm="unigram", vocab_size=450)
BYTE = TokenizerConfig(algorithm="byte-bpe", vocab_size=600)


def digests(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.mark.parametrize("config", [UNIGRAM, BYTE], ids=lambda config: config.algorithm)
def test_the_same_bytes_again_whatever_the_threads(helpers, corpus, tmp_path, config):
    first = helpers["run"](corpus, tmp_path / "a", config.model_copy(update={"threads": 1}))
    helpers["run"](corpus, tmp_path / "b", config.model_copy(update={"threads": 2}))
    assert digests(tmp_path / "a") == digests(tmp_path / "b")
    assert first.summary["vocab_size"] == config.vocab_size
    assert first.summary["round_trip"] == 1.0
    assert (tmp_path / "a" / "tokenizer.model").is_file() == (config is UNIGRAM)


def test_byte_level_bpe_is_the_same_in_another_process(helpers):
    texts = helpers["sentences"](300, 3)
    code = (
        "import json, sys\nfrom configs.schema import TokenizerConfig\n"
        "from tasks.tokenizer.byte_level_bpe import train_byte_level_bpe\n"
        "made = train_byte_level_bpe([json.load(sys.stdin)], TokenizerConfig(algorithm='byte-bpe', vocab_size=500))\n"
        "sys.stdout.write(made.to_str())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7", "RAYON_NUM_THREADS": "1"}
    other = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(texts), capture_output=True, text=True, check=True,
        env=environment, timeout=120,
    )  # fmt: skip
    assert other.stdout == train_byte_level_bpe([texts], BYTE.model_copy(update={"vocab_size": 500})).to_str()


def test_unigram_cuts_as_sentencepiece_does(helpers):
    texts = helpers["sentences"](500, 4)
    model = train_sentencepiece(texts, UNIGRAM)
    check = check_tokenizer(model, fast_tokenizer(model), [texts, ["unseen ☃ <0x41>", "two  spaces "]])
    assert (check.same_ids, check.round_trip, check.failures) == (1.0, 1.0, [])
    assert "equally_likely" in check.as_json()
    assert [row["text"] for row in check.awkward] == ["the mark ▁ itself", "<s> looks special </s>"]
    literal = fast_tokenizer(model)
    literal.encode_special_tokens = True
    same, back = compare(spm.SentencePieceProcessor(model_proto=model), literal, [*AWKWARD, "<<s>unk><unk>"])
    assert all(same)
    assert [text for text, ok in zip(AWKWARD, back, strict=False) if not ok] == ["the mark ▁ itself"]


def test_unigram_with_another_score_is_found(helpers):
    texts = helpers["sentences"](300, 5)
    model = train_sentencepiece(texts, UNIGRAM)
    wrong = fast_tokenizer(model)
    changed = json.loads(wrong.to_str())
    changed["model"]["vocab"] = [[piece, score * (0.5 if i % 2 else 1.5)] for i, (piece, score) in
                                 enumerate(changed["model"]["vocab"])]  # fmt: skip
    with pytest.raises(RuntimeError, match="get other ids than from SentencePiece"):
        check_tokenizer(model, Tokenizer.from_str(json.dumps(changed)), [texts])


def test_equally_likely_cuts_are_the_same():
    from tasks.tokenizer.self_check import SelfCheck, _compare

    model = train_sentencepiece(["ab ba abab baba aabb"] * 20, UNIGRAM.model_copy(update={"vocab_size": 264}))
    processor = spm.SentencePieceProcessor(model_proto=model)
    ids = processor.encode("ab ba")
    swapped = fast_tokenizer(model)

    class Reversed:
        """Gives the pieces in another order: as probable, and another text."""

        def encode_batch(self, texts, add_special_tokens):
            class Encoding:
                ids = processor.encode(texts[0])[::-1]

            return [Encoding()]

        decode_batch = swapped.decode_batch

    check = SelfCheck(equally_likely=0)
    same, back = _compare(processor, Reversed(), ["ab ba"], check)
    assert same == [True]
    assert back == [ids == ids[::-1]]
    assert check.equally_likely == 1


def test_byte_level_words(corpus, helpers, tmp_path):
    helpers["run"](corpus, tmp_path / "out", BYTE)
    loaded = AutoTokenizer.from_pretrained(str(tmp_path / "out"))
    assert loaded.convert_ids_to_tokens(loaded("kali 12")["input_ids"])[-3:] == ["Ġ", "1", "2"]
    assert loaded.unk_token is None
    assert (loaded.bos_token_id, loaded.eos_token_id) == (0, 1)
    vocabulary = loaded.get_vocab()
    assert sorted(vocabulary.values()) == list(range(600))
    merges = json.loads((tmp_path / "out" / "tokenizer.json").read_text())["model"]["merges"]
    assert len(merges) == 600 - 256 - 2
    # a word of Devanagari, marks and all, is one stretch
    pieces = loaded.backend_tokenizer.pre_tokenizer.pre_tokenize_str("की हिन्दी, 12\n\nx")
    assert [span for _, span in pieces] == [(0, 2), (2, 9), (9, 10), (10, 11), (11, 12), (12, 13), (13, 15), (15, 16)]
    wide = train_byte_level_bpe([["x 12 345"]], BYTE.model_copy(update={"vocab_size": 259, "split_digits": False}))
    assert [span for _, span in wide.pre_tokenizer.pre_tokenize_str("x 12 345")] == [(0, 1), (1, 4), (4, 8)]


@pytest.mark.parametrize("train", [[], ["", ""]])
@pytest.mark.parametrize("config", [UNIGRAM, BYTE], ids=lambda config: config.algorithm)
def test_no_text(helpers, tmp_path, train, config):
    corpus = helpers["write_corpus"](tmp_path / "corpus", train, [])
    with pytest.raises(InputError, match="no text"):
        helpers["run"](corpus, tmp_path / "out", config)


@pytest.mark.parametrize("algorithm", ["unigram", "byte-bpe"])
def test_vocabulary_too_large(corpus, helpers, tmp_path, algorithm):
    config = TokenizerConfig(algorithm=algorithm, vocab_size=50_000)
    with pytest.raises(InputError, match=r"vocab_size is 50000, but the training text supports at most \d+ tokens"):
        helpers["run"](corpus, tmp_path / "out", config)


def test_unigram_vocabulary_too_small_for_the_characters(helpers, tmp_path):
    text = ["".join(chr(0x4E00 + i) for i in range(start, start + 50)) for start in range(0, 500, 50)]
    corpus = helpers["write_corpus"](tmp_path / "corpus", text, [])
    with pytest.raises(InputError, match=r"vocab_size is 300, but .* need at least 760"):
        helpers["run"](corpus, tmp_path / "out", TokenizerConfig(algorithm="unigram", vocab_size=300))


def test_an_unknown_strategy_is_no_strategy(monkeypatch):
    import tasks.tokenizer.strategies as strategies

    monkeypatch.setitem(strategies.STRATEGIES, "bpe", "tasks.pretrained")
    monkeypatch.setattr("tasks.pretrained.STRATEGY", models.BPE, raising=False)
    with pytest.raises(TypeError, match="expected a Strategy"):
        strategies.load_strategy(TokenizerConfig())


@pytest.mark.shared_data
@pytest.mark.parametrize("algorithm", ["unigram", "byte-bpe"])
def test_real_text(shared_data, helpers, tmp_path, algorithm):
    import zstandard

    path = sorted((shared_data / "mono" / "sw").glob("*.zst"))[0]
    with zstandard.open(path, "rt", encoding="utf-8") as file:
        lines = [line.rstrip("\n") for _, line in zip(range(1600), file, strict=False)]
    corpus = helpers["write_corpus"](tmp_path / "corpus", lines[:1000], lines[1000:])
    result = helpers["run"](corpus, tmp_path / "out", TokenizerConfig(algorithm=algorithm, vocab_size=2000))
    assert result.summary["round_trip"] == 1.0
