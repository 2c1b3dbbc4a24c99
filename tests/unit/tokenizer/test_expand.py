"""Expansion of small tokenizers of both kinds, made on the spot."""

import json
import random
import re
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from configs.schema import TokenizerConfig
from tasks.contract import InputError
from tasks.tokenizer.expand import expand_tokenizer

ENGLISH = re.findall(
    r"\w+",
    "the house stands by the river and the children play near old trees while their mother reads a long letter "
    "nobody knows where this road goes but everyone walks there after dinner with friends or alone under bright stars",
)
TARGET = ("ka", "li", "mo", "ne", "tu", "ra", "si", "vo", "ŋa", "до", "ми", "हि", "न्", "दी", "ක", "මි")
NEW = 60
KINDS = ("sentencepiece", "byte-level", "ignore-merges")
SCRIPTS = (
    "house by the river",
    "Привет, мир",
    "Γειά σου Κόσμε",
    "Բարեւ աշխարհ",
    "გამარჯობა მსოფლიო",
    "שלום עולם",
    "السلام عليكم",
    "नमस्ते दुनिया",
    "নমস্কার বিশ্ব",
    "ਸਤ ਸ੍ਰੀ ਅਕਾਲ",
    "નમસ્તે",
    "வணக்கம் உலகம்",
    "నమస్కారం",
    "ನಮಸ್ಕಾರ",
    "ආයුබෝවන්",
    "สวัสดีชาวโลก",
    "ສະບາຍດີ",
    "မင်္ဂလာပါ",
    "ជំរាបសួរ",
    "ሰላም ለዓለም",
    "你好,世界",
    "こんにちは世界",
    "안녕하세요",
    "👩‍👩‍👧‍👦 👍🏽 🏳️‍🌈",
    "e\u0301 o\u0308 n\u0303",
    "  both sides  ",
    "two  three   spaces",
    "a\nb\r\n\nc\td",
    "def f(x):\n    return {x: [1, 23, 456]}  # kalimo",
    " kalimo",
    "kalimo ",
    "",
    " ",
)


@cache
def english(count: int = 400) -> tuple[str, ...]:
    chooser = random.Random(1)
    return tuple(" ".join(chooser.choices(ENGLISH, k=9)) + chooser.choice([".", "!", " (12)."]) for _ in range(count))


@cache
def target(count: int = 600) -> tuple[str, ...]:
    chooser = random.Random(2)
    lexicon = ["".join(chooser.choices(TARGET, k=chooser.randint(1, 4))) for _ in range(150)]
    weights = [1 / (n + 1) for n in range(150)]
    return tuple(" ".join(chooser.choices(lexicon, weights, k=8)) + chooser.choice([".", "?"]) for _ in range(count))


def make_sentencepiece(folder: Path, helpers: dict[str, Any]) -> None:
    corpus = helpers["write_corpus"](folder / "corpus", list(english()), list(english(50)))
    helpers["run"](corpus, folder, TokenizerConfig(vocab_size=450))


def make_byte_level(folder: Path, ignore_merges: bool) -> None:
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if ignore_merges:  # as Llama-3 has it
        words = Regex(r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(words, "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=420, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(english(), trainer)
    if ignore_merges:  # a token that merges never make, and added tokens outside the model's vocabulary
        spec = json.loads(tokenizer.to_str())
        spec["model"]["vocab"]["Ġkaleidoscope"] = len(spec["model"]["vocab"])
        tokenizer = Tokenizer.from_str(json.dumps(spec))
        assert [t.replace("Ġ", " ") for t in tokenizer.encode(" kaleidoscope").tokens] == [" kaleidoscope"]
    tokenizer.add_special_tokens([AddedToken("<|begin|>", normalized=False), AddedToken("<|end|>", normalized=False)])
    tokenizer.add_tokens([AddedToken("<tool>", normalized=False)])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<|begin|>", eos_token="<|end|>", chat_template="{{ messages }}<|end|>"
    )
    fast.save_pretrained(str(folder))


@pytest.fixture(scope="module")
def made(
    tmp_path_factory: pytest.TempPathFactory, helpers: dict[str, Any]
) -> Callable[[str], tuple[Path, Path, dict[str, Any]]]:
    """By kind: folder of the source tokenizer, folder of the expanded one, report."""

    @cache
    def make(kind: str) -> tuple[Path, Path, dict[str, Any]]:
        source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("out")
        if kind == "sentencepiece":
            make_sentencepiece(source, helpers)
        else:
            make_byte_level(source, ignore_merges=kind == "ignore-merges")
        return source, out, expand(source, out)

    return make


def expand(source: Path, out: Path, new_tokens: int = NEW) -> dict[str, Any]:
    config = TokenizerConfig(strategy="expand", new_tokens=new_tokens, auxiliary_size=2000)
    return expand_tokenizer(source, lambda: iter([list(target())]), lambda: iter([list(english())]), config, out)


@cache
def backend(folder: Path) -> Tokenizer:
    return AutoTokenizer.from_pretrained(str(folder)).backend_tokenizer


def ids_of(folder: Path, text: str) -> list[int]:
    return backend(folder).encode(text, add_special_tokens=False).ids


@cache
def old_pieces(source: Path, out: Path) -> dict[int, list[int]]:
    """Each new id with what the source model alone cuts its string into, found with a BPE loop of our own."""
    spec = json.loads((source / "tokenizer.json").read_text())
    vocabulary = spec["model"]["vocab"]
    ranks = {tuple(m.split(" ") if isinstance(m, str) else m): n for n, m in enumerate(spec["model"]["merges"])}
    first = max(AutoTokenizer.from_pretrained(str(source)).get_vocab().values()) + 1
    found = {}
    for token, i in json.loads((out / "tokenizer.json").read_text())["model"]["vocab"].items():
        if i < first:
            continue
        parts: list[str] = []
        for c in token:
            parts += [c] if c in vocabulary else [f"<0x{b:02X}>" for b in c.encode()]
        while any(pair in ranks for pair in pairwise(parts)):
            best = min(range(len(parts) - 1), key=lambda n: ranks.get((parts[n], parts[n + 1]), len(ranks)))
            parts[best : best + 2] = [parts[best] + parts[best + 1]]
        found[i] = [vocabulary[part] for part in parts]
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_every_new_token_is_produced(kind: str, made: Callable[[str], Any]) -> None:
    _, out, report = made(kind)
    first, size = report["first_new_id"], len(backend(out).get_vocab())
    used = {i for text in target() for i in ids_of(out, text)}
    assert used >= set(range(first, size))
    assert size - first == NEW == report["new_tokens_produced"] == report["new_tokens"]
    assert report["target_tokens_after"] < 0.7 * report["target_tokens_before"]


@pytest.mark.parametrize("kind", KINDS)
def test_old_ids_never_move_and_new_ones_follow(kind: str, made: Callable[[str], Any]) -> None:
    source, out, report = made(kind)
    old, new = (AutoTokenizer.from_pretrained(str(folder)) for folder in (source, out))
    assert old.get_vocab().items() <= new.get_vocab().items()
    assert sorted(set(new.get_vocab().values()) - set(old.get_vocab().values())) == list(
        range(report["first_new_id"], report["first_new_id"] + NEW)
    )
    assert report["first_new_id"] == max(old.get_vocab().values()) + 1
    assert new.all_special_ids == old.all_special_ids
    assert new.chat_template == old.chat_template
    assert {i: str(t) for i, t in new.added_tokens_decoder.items()} == {
        i: str(t) for i, t in old.added_tokens_decoder.items()
    }
    text = "the <|begin|> house<tool> by <s> the river<|end|>"
    assert new(text)["input_ids"] == old(text)["input_ids"]


@pytest.mark.parametrize("kind", KINDS)
def test_source_text_keeps_its_ids(kind: str, made: Callable[[str], Any]) -> None:
    source, out, report = made(kind)
    for text in english():
        assert ids_of(out, text) == ids_of(source, text)
    assert report["source_lines"] == len(english())
    assert report["source_differences"] == report["target_differences"] == report["awkward_differences"] == 0


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    words=st.lists(
        st.one_of(
            st.sampled_from(ENGLISH),
            st.lists(st.sampled_from(TARGET), min_size=1, max_size=6).map("".join),
            st.text(max_size=6),
            st.sampled_from(["12", "(", ".", "\n", "▁", "ка", "the", "हिन्", "haus", "<s>", "<|end|>", "<0x41>"]),
        ),
        max_size=8,
    ),
    glue=st.sampled_from([" ", "", "  ", "\n"]),
)
def test_new_tokens_only_join_what_was_cut(kind: str, made: Callable[[str], Any], words: list[str], glue: str) -> None:
    source, out, _ = made(kind)
    text = glue.join(words)
    pieces = old_pieces(source, out)
    before, after = ids_of(source, text), ids_of(out, text)
    assert [old for i in after for old in pieces.get(i, [i])] == before
    assert backend(out).decode(after) == backend(source).decode(before)
    if not set(after) & set(pieces):
        assert after == before


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", SCRIPTS)
def test_round_trip(kind: str, made: Callable[[str], Any], text: str) -> None:
    _, out, _ = made(kind)
    assert backend(out).decode(ids_of(out, text)) == text


def test_tokenizer_model_is_kept_and_equal(made: Callable[[str], Any]) -> None:
    from sentencepiece import SentencePieceProcessor

    _, out, report = made("sentencepiece")
    assert report["tokenizer_model"] == "kept"
    slow = SentencePieceProcessor(model_file=str(out / "tokenizer.model"))
    assert slow.get_piece_size() == len(backend(out).get_vocab())
    for text in (*target(), *english(), *SCRIPTS[:26]):
        assert slow.encode(text) == ids_of(out, text), text


def test_ignore_merges_is_kept(made: Callable[[str], Any]) -> None:
    _, out, _ = made("ignore-merges")
    assert json.loads((out / "tokenizer.json").read_text())["model"]["ignore_merges"] is True
    assert len(ids_of(out, " kaleidoscope")) == 1


def test_the_same_input_gives_the_same_bytes(made: Callable[[str], Any], tmp_path: Path) -> None:
    for kind in ("sentencepiece", "byte-level"):
        source, out, report = made(kind)
        again = tmp_path / kind
        again.mkdir()
        assert expand(source, again) == report
        assert sorted(p.name for p in again.iterdir()) == sorted(p.name for p in out.iterdir())
        assert all((again / p.name).read_bytes() == p.read_bytes() for p in out.iterdir())


def test_chars_that_were_bytes_become_tokens(made: Callable[[str], Any]) -> None:
    source, out, _ = made("sentencepiece")
    vocabulary = backend(out).get_vocab()
    characters = [token for token in vocabulary if len(token) == 1 and token not in backend(source).get_vocab()]
    assert characters
    for character in characters:
        assert ids_of(source, "the " + character)[-len(character.encode()) :] == [
            vocabulary[f"<0x{byte:02X}>"] for byte in character.encode()
        ]
        assert ids_of(out, "the" + character)[-1] == vocabulary[character]


def test_vocab_and_merges_files_get_the_tokens(made: Callable[[str], Any], tmp_path: Path) -> None:
    source, _, _ = made("byte-level")
    folder, out = tmp_path / "with-files", tmp_path / "out"
    folder.mkdir(), out.mkdir()
    for path in source.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    backend(source).model.save(str(folder))
    expand(folder, out)
    spec = json.loads((out / "tokenizer.json").read_text())
    vocabulary = json.loads((out / "vocab.json").read_text())
    assert {t: spec["model"]["vocab"][t] for t in vocabulary} == vocabulary
    assert (out / "merges.txt").read_text().splitlines()[1:] == [f"{a} {b}" for a, b in spec["model"]["merges"]]


def test_too_many_new_tokens(made: Callable[[str], Any], tmp_path: Path) -> None:
    source, _, _ = made("byte-level")
    with pytest.raises(InputError, match=r"new_tokens is 9000, but the text gives only \d+ new tokens"):
        expand(source, tmp_path, 9000)


def test_no_text(made: Callable[[str], Any], tmp_path: Path) -> None:
    source, _, _ = made("byte-level")
    config = TokenizerConfig(strategy="expand")
    with pytest.raises(InputError, match="no text"):
        expand_tokenizer(source, lambda: iter([]), None, config, tmp_path)


def test_tokens_that_are_never_produced_are_an_error() -> None:
    from tasks.tokenizer.expand import _check_produced
    from tasks.tokenizer.expand_proof import Proof

    tokens = [f"t{n}" for n in range(200)]
    _check_produced(tokens, Proof(np.array([0, 0] + [1] * 198)))
    with pytest.raises(InputError, match=r"197 of 200 new tokens, fewer than 99 %.*Not produced: t0 t1 t2"):
        _check_produced(tokens, Proof(np.array([0, 0, 0] + [1] * 197)))
