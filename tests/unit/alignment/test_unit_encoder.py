import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

from tasks.alignment import unit_encoder
from tasks.alignment.chunks import PATTERNS, chunk_rule, split_chunks
from tasks.alignment.unit_encoder import Tokenizer as UnitTokenizer
from tasks.alignment.unit_encoder import UnitEncoder
from tasks.alignment.units import vocabulary
from tasks.alignment.word_table import buffers

KINDS = [
    "byte-level",
    "sentencepiece",
    "sentencepiece-legacy",
    "byte-level-split",
    "byte-level-nfc",
    "marked",
    "replaced",
]


@pytest.fixture(scope="session")
def kinds(tokenizers: dict[str, Tokenizer]) -> dict[str, Tokenizer]:
    """The tokenizers of `tokenizers`, and variants of them."""
    byte_level, pieces = tokenizers["byte-level"], tokenizers["sentencepiece"]
    made = dict(tokenizers)
    for name in ("byte-level-split", "byte-level-nfc"):
        made[name] = Tokenizer.from_str(byte_level.to_str())
    made["byte-level-split"].pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(regex_of("{1,3}"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    made["byte-level-nfc"].normalizer = normalizers.NFC()
    for name in ("marked", "replaced"):
        made[name] = Tokenizer.from_str(pieces.to_str())
    made["marked"].pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="never", split=False)
    made["replaced"].pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    made["replaced"].normalizer = normalizers.Replace(" ", "▁")
    for tokenizer in made.values():
        tokenizer.add_tokens([AddedToken("<pic>", normalized=False), AddedToken("  ", normalized=False)])
    return made


def regex_of(digits: str) -> Any:
    from tokenizers import Regex

    return Regex(next(pattern for pattern in PATTERNS if f"\\p{{N}}{digits}|" in pattern))


def encoded(tokenizer: Tokenizer, batches: list[list[str]], by_chunks: bool) -> list[list[tuple[str, tuple[int, ...]]]]:
    """Text and tokens of every unit of every text."""
    encoder = UnitEncoder(UnitTokenizer(tokenizer, vocabulary(tokenizer)), "words", by_chunks)
    rows: list[list[int]] = []
    for batch in batches:
        numbers, lengths = encoder.encode(pa.array(batch, pa.string()))
        rows += [part.tolist() for part in np.split(numbers, np.cumsum(lengths)[:-1])]
    texts, tokens = encoder.table.texts().to_pylist(), encoder.table.token_ids().to_pylist()
    return [[(texts[number], tuple(tokens[number])) for number in row] for row in rows]


WORDS = st.sampled_from(
    ["the", "thé", "house", "T", "12", "3.5", "don't", "'s", "a-b", "古い", "घर", "e\u0301", "\u0301", "ho▁use", "▁",
     "<pic>", "<s>", "a\tb", "\n", "\u00a0x", "😀", "...", "\u200b", "पु", "Ġ", "|||", "x\u3000", "\x07", "'"]
)  # fmt: skip
TEXT = st.lists(st.tuples(st.sampled_from(["", " ", " ", " ", "  ", "   "]), WORDS), max_size=7).map(
    lambda parts: "".join(blank + word for blank, word in parts)
) | st.sampled_from(["", " ", "  ", "the ", " the", "the  "])


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=50, deadline=None)
@given(batches=st.lists(st.lists(TEXT, min_size=1, max_size=6), min_size=1, max_size=3))
def test_chunks_give_the_units_of_whole_texts(kinds: dict[str, Tokenizer], name: str, batches: list[list[str]]) -> None:
    tokenizer = kinds[name]
    assert chunk_rule(tokenizer) is not None
    by_chunks, whole = encoded(tokenizer, batches, True), encoded(tokenizer, batches, False)
    if name == "byte-level-nfc":  # a unit keeps the text of its first occurrence, which may be another spelling
        by_chunks, whole = ([[unit[1] for unit in row] for row in rows] for rows in (by_chunks, whole))
    assert by_chunks == whole


def test_chunks_are_remembered_and_forgotten(kinds: dict[str, Tokenizer], monkeypatch: pytest.MonkeyPatch) -> None:
    batches = [[f"the house {number}", "the house", f"{number} house the"] for number in range(12)]
    expected = encoded(kinds["sentencepiece-legacy"], batches, False)
    assert encoded(kinds["sentencepiece-legacy"], batches, True) == expected
    monkeypatch.setattr(unit_encoder, "MOST_CHUNKS", 3)
    assert encoded(kinds["sentencepiece-legacy"], batches, True) == expected


def test_split_at_the_blanks_before_other_characters() -> None:
    texts = ["a bc  d", "", " x ", "  ", "é ü"]
    data, offsets = buffers(pa.array(texts))
    first, counts = split_chunks(data, offsets)
    chunks = [bytes(data[a:b]).decode() for a, b in itertools.pairwise(first)]
    assert chunks == ["a", " bc", "  d", " x", " ", "  ", "é", " ü"]
    assert counts.tolist() == [3, 0, 2, 1, 2]


def bpe(pieces: dict[str, int], **values: Any) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(vocab=pieces, merges=[], **values))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first", split=False)
    return tokenizer


def test_tokenizers_that_look_beyond_a_chunk_have_no_rule(kinds: dict[str, Tokenizer]) -> None:
    plain = {"▁": 0, "a": 1, "▁a": 2}
    assert chunk_rule(bpe(plain)) is not None
    assert chunk_rule(bpe({**plain, "a▁": 3})) is None
    assert chunk_rule(bpe({"a": 0})) is None
    assert chunk_rule(bpe(plain, dropout=0.1)) is None
    assert chunk_rule(bpe(plain, ignore_merges=True)) is None
    assert chunk_rule(Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))) is None
    assert chunk_rule(Tokenizer(models.Unigram([("a", 0.0)], 0))) is None
    lower = bpe(plain)
    lower.normalizer = normalizers.Lowercase()
    assert chunk_rule(lower) is None
    two_words = bpe(plain)
    two_words.add_tokens([AddedToken("a a", normalized=False)])
    assert chunk_rule(two_words) is None
    own = Tokenizer.from_str(kinds["byte-level"].to_str())
    own.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(" ", "removed"), pre_tokenizers.ByteLevel(use_regex=False)]
    )
    own.decoder = decoders.ByteLevel()
    assert chunk_rule(own) is None


@pytest.fixture
def lines_of(shared_data: Path) -> Callable[[str, int], list[str]]:
    """Reader of the first pairs of a parallel corpus, both sides one after the other."""

    def read(name: str, count: int) -> list[str]:
        with zstandard.open(shared_data / "parallel" / f"{name}.tsv.zst", "rt", encoding="utf-8") as file:
            lines = [next(file).rstrip("\n").split("\t") for _ in range(count)]
        return [text for line in lines for text in line]

    return read


@pytest.mark.shared_data
@pytest.mark.parametrize("folder", ["focus-sw-bpe-50k", "gpt-neox-20b", "gpt2-50k", "whisper-multilingual-50k"])
def test_real_tokenizers_on_real_text(
    shared_data: Path, folder: str, lines_of: Callable[[str, int], list[str]]
) -> None:
    tokenizer = Tokenizer.from_file(str(shared_data / "tokenizers" / folder / "tokenizer.json"))
    assert chunk_rule(tokenizer) is not None
    texts = [
        text for name in ("en-sw/lafand-train.NC", "en-ko/python-docs", "en-hi/tldr") for text in lines_of(name, 700)
    ]
    assert encoded(tokenizer, [texts[:1000], texts[1000:]], True) == encoded(tokenizer, [texts], False)
