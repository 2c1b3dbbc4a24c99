"""Stage `tokenizer`."""

import hashlib
import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import sentencepiece as spm
from transformers import AutoTokenizer

from configs.schema import TokenizerConfig
from tasks.contract import InputError, load_stage
from tasks.tokenizer.convert import fast_tokenizer
from tasks.tokenizer.sample import sample_texts
from tasks.tokenizer.self_check import AWKWARD, check_tokenizer, compare
from tasks.tokenizer.sentencepiece_training import train_sentencepiece


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_files_and_bytes_are_the_same_in_every_run(corpus, trained, helpers, tmp_path):
    result = helpers["run"](corpus, tmp_path / "again", TokenizerConfig(vocab_size=600, threads=2))
    assert digests(tmp_path / "again") == digests(trained)
    assert set(digests(trained)) == {
        "tokenizer.model", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "self_check.json",
        "frequencies.parquet",
    }  # fmt: skip
    assert result.summary["round_trip"] == 1.0
    assert result.summary["vocab_size"] == 600
    assert str(tmp_path).encode() not in (trained / "tokenizer.model").read_bytes()


def test_auto_tokenizer_loads_it_with_bos_and_without_eos(trained):
    tokenizer = AutoTokenizer.from_pretrained(str(trained))
    encoded = tokenizer("kali mo 12")
    assert set(encoded) == {"input_ids", "attention_mask"}
    assert encoded["input_ids"][0] == tokenizer.bos_token_id == 1
    assert tokenizer.eos_token_id == 2
    assert tokenizer.unk_token_id == 0
    assert tokenizer.pad_token is None
    assert 2 not in encoded["input_ids"]
    assert tokenizer.decode(encoded["input_ids"], skip_special_tokens=True) == "kali mo 12"
    assert tokenizer.convert_ids_to_tokens(encoded["input_ids"])[-2:] == ["1", "2"]


def test_self_check_lists_what_does_not_come_back(trained):
    check = json.loads((trained / "self_check.json").read_text())
    assert check["sentences"] == 202
    assert check["special_text"] == 1
    assert check["same_ids"] == check["round_trip"] == 1.0
    assert {row["text"] for row in check["awkward"]} == {"the mark ▁ itself", "<s> looks special </s>"}


def test_awkward_strings_have_sentencepiece_ids(trained):
    processor = spm.SentencePieceProcessor(model_proto=(trained / "tokenizer.model").read_bytes())
    tokenizer = AutoTokenizer.from_pretrained(str(trained)).backend_tokenizer
    same, _ = compare(processor, tokenizer, [text for text in AWKWARD if "<s>" not in text])
    assert all(same)


def test_self_check_finds_a_wrong_conversion(trained):
    model = (trained / "tokenizer.model").read_bytes()
    tokenizer = fast_tokenizer(model)
    tokenizer.normalizer = None
    with pytest.raises(RuntimeError, match="1 get other ids than from SentencePiece"):
        check_tokenizer(model, tokenizer, [["kali mo"]])


def test_frequencies_are_those_of_the_training_text(corpus, trained):
    table = pq.read_table(trained / "frequencies.parquet")
    assert table["token_id"].to_pylist() == list(range(600))
    tokenizer = AutoTokenizer.from_pretrained(str(trained))
    texts = pq.read_table(corpus / "train.parquet")["text"].to_pylist()
    expected = Counter(i for text in texts for i in tokenizer(text, add_special_tokens=False)["input_ids"])
    assert table["count"].to_pylist() == [expected[i] for i in range(600)]


def test_vocabulary_too_large(corpus, helpers, tmp_path):
    with pytest.raises(InputError, match=r"vocab_size is 50000, but the training text supports at most \d+ tokens"):
        helpers["run"](corpus, tmp_path / "out", TokenizerConfig(vocab_size=50_000))


def test_vocabulary_too_small_for_the_characters(helpers, tmp_path):
    text = ["".join(chr(0x4E00 + i) for i in range(start, start + 50)) for start in range(0, 500, 50)]
    corpus = helpers["write_corpus"](tmp_path / "corpus", text, [])
    with pytest.raises(InputError, match=r"vocab_size is 300, but .* need at least 760"):
        helpers["run"](corpus, tmp_path / "out", TokenizerConfig(vocab_size=300))


@pytest.mark.parametrize("train", [[], ["", ""]])
def test_no_text(helpers, tmp_path, train):
    corpus = helpers["write_corpus"](tmp_path / "corpus", train, [])
    with pytest.raises(InputError, match="no text"):
        helpers["run"](corpus, tmp_path / "out", TokenizerConfig(vocab_size=300))


def test_sentences_with_tabs_and_long_sentences_are_trained_on():
    long = "zzzzqqqq " * 2000
    pieces = train_sentencepiece(
        [f"xxxx\tyyyy {long}"] * 3, TokenizerConfig(vocab_size=300).model_copy(update={"vocab_size": 270})
    )
    processor = spm.SentencePieceProcessor(model_proto=pieces)
    assert "x" in [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    assert len(processor.encode("zzzzqqqq")) < 8


def test_sample_has_the_exact_size_and_depends_on_the_seed(corpus):
    texts = pq.read_table(corpus / "train.parquet")["text"].to_pylist()
    one = [text for batch in sample_texts(corpus / "train.parquet", 100, 0) for text in batch]
    assert one == [text for batch in sample_texts(corpus / "train.parquet", 100, 0) for text in batch]
    assert len(one) == 100
    assert one != [text for batch in sample_texts(corpus / "train.parquet", 100, 1) for text in batch]
    positions = [texts.index(text) for text in one]
    assert sum(a < b for a, b in pairwise(positions)) > 95  # file order, but for double texts
    assert [text for batch in sample_texts(corpus / "train.parquet", 10**6, 5) for text in batch] == texts


def test_the_stage_is_isolated():
    assert load_stage("tokenizer").isolated


@pytest.mark.shared_data
def test_real_text(shared_data, helpers, tmp_path):
    import zstandard

    path = sorted((shared_data / "mono" / "sw").glob("*.zst"))[0]
    with zstandard.open(path, "rt", encoding="utf-8") as file:
        lines = [line.rstrip("\n") for _, line in zip(range(4000), file, strict=False)]
    corpus = helpers["write_corpus"](tmp_path / "corpus", lines[:3000], lines[3000:])
    result = helpers["run"](corpus, tmp_path / "out", TokenizerConfig(vocab_size=3000))
    assert result.summary["same_ids_as_sentencepiece"] == 1.0
