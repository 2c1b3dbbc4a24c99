"""Canonical forms of tokens."""

import time

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from tasks.embeddings.canonical import surfaces_of, vocabulary_of

SENTENCEPIECE = {"decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}]}, "model": {"type": "BPE"}}
BYTE_LEVEL = {"pre_tokenizer": {"type": "ByteLevel"}, "model": {"type": "BPE"}}
WORDPIECE = {"model": {"type": "WordPiece", "continuing_subword_prefix": "##"}}


@pytest.mark.parametrize(
    ("spec", "token", "surface"),
    [
        (SENTENCEPIECE, "▁house", b" house"),
        (SENTENCEPIECE, "house", b"house"),
        (SENTENCEPIECE, "▁", b" "),
        (SENTENCEPIECE, "▁▁", b"  "),
        (SENTENCEPIECE, "<0x0A>", b"\n"),
        (SENTENCEPIECE, "<0xC3>", b"\xc3"),
        (SENTENCEPIECE, "<0xZZ>", b"<0xZZ>"),
        (BYTE_LEVEL, "Ġhouse", b" house"),
        (BYTE_LEVEL, "ĠÐ´Ð¾Ð¼", " дом".encode()),
        (BYTE_LEVEL, "Ċ", b"\n"),
        (BYTE_LEVEL, "Ã", b"\xc3"),
        (BYTE_LEVEL, "▁", "▁".encode()),
        (WORDPIECE, "house", b" house"),
        (WORDPIECE, "##s", b"s"),
        ({"model": {"type": "WordLevel"}}, "house", b"house"),
    ],
)
def test_surface(spec, token, surface):
    assert surfaces_of([token], spec)[0] == [surface]


def test_byte_alphabet_covers_every_byte():
    from tokenizers import pre_tokenizers

    alphabet = pre_tokenizers.ByteLevel.alphabet()
    found, _ = surfaces_of(sorted(alphabet), BYTE_LEVEL)
    assert sorted(found) == [bytes([byte]) for byte in range(256)]


def test_same_text_has_the_same_form_under_every_tokenizer(tokenizers):
    text = " дом house"
    forms = []
    for name in ("russian", "english", "russian-bytes", "english-bytes"):
        tokenizer = AutoTokenizer.from_pretrained(str(tokenizers[name]))
        vocabulary = vocabulary_of(tokenizer)
        text_in = text[1:] if name in ("russian", "english") else text  # SentencePiece puts the first space itself
        ids = tokenizer(text_in, add_special_tokens=False)["input_ids"]
        forms.append(b"".join(vocabulary.surfaces[i] for i in ids))
    assert set(forms) == {text.encode()}


def test_flags_and_roles(tokenizers):
    vocabulary = vocabulary_of(AutoTokenizer.from_pretrained(str(tokenizers["dutch"])))
    assert vocabulary.roles == {"unk": 0, "bos": 1, "eos": 2}
    assert vocabulary.special.nonzero()[0].tolist() == [0, 1, 2]
    assert vocabulary.byte.sum() == 256
    house = vocabulary.tokens.index("▁de")
    assert vocabulary.starts_word[house]
    assert vocabulary.texts[house] == b"de"
    assert vocabulary_of(AutoTokenizer.from_pretrained(str(tokenizers["english-bytes"]))).roles.keys() == {"bos", "eos"}


def test_added_tokens_are_plain_text_and_gaps_are_special():
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

    backend = Tokenizer(models.BPE(vocab={"a": 0, "b": 5}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel()
    backend.add_tokens([AddedToken("é é", normalized=False)])
    vocabulary = vocabulary_of(PreTrainedTokenizerFast(tokenizer_object=backend))
    assert vocabulary.surfaces[vocabulary.tokens.index("é é")] == "é é".encode()
    assert [token == "" for token in vocabulary.tokens] == vocabulary.special.tolist()
    assert vocabulary.special.sum() == 3


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("name", "word"),
    [("gpt2-50k", b" house"), ("whisper-multilingual-50k", " дом".encode()), ("focus-sw-xlmr-unigram-50k", b" watu")],
)
def test_real_tokenizers(shared_data, name, word):
    path = shared_data / "tokenizers" / name / "tokenizer.json"
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(path))
    start = time.perf_counter()
    vocabulary = vocabulary_of(tokenizer)
    assert time.perf_counter() - start < 5
    assert word in vocabulary.surfaces
    assert len(vocabulary) >= 30_000
