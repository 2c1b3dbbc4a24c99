"""Expansion of source folders as models come with them: Gemma's and Qwen's kind, bare and crowded folders."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import AutoTokenizer, GPT2Tokenizer, PreTrainedTokenizerFast

from configs.schema import TokenizerConfig
from tasks.contract import InputError
from tasks.pretrained import load_tokenizer
from tasks.tokenizer.expand import expand_tokenizer
from tasks.tokenizer.expand_files import write_expanded

ENGLISH = ("the", "house", "stands", "by", "river", "and", "old", "trees", "grow", "near", "long", "road", "nobody")
NEW = 40
SPACED = "  two  spaces,   three\n\nand lines\twith é and e\u0301 and 家 "


def english(count: int = 200) -> list[str]:
    chooser = random.Random(1)
    return [" ".join(chooser.choices(ENGLISH, k=8)) + chooser.choice([".", "!", " (12)."]) for _ in range(count)]


def gemma(folder: Path) -> None:
    """Byte fallback, no space before the text, runs of line ends and of spaces and marks as added tokens."""
    raw = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    raw.normalizer = normalizers.Replace(" ", "▁")
    raw.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    raw.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"]
    trainer = trainers.BpeTrainer(
        vocab_size=420, special_tokens=[*special, *(f"<0x{byte:02X}>" for byte in range(256))], show_progress=False,
        max_token_length=10,
    )  # fmt: skip
    training = Tokenizer(models.BPE())
    training.normalizer = raw.normalizer
    training.pre_tokenizer = pre_tokenizers.Split(Regex("▁?[^▁]+|▁+"), "isolated")
    training.train_from_iterator(english(), trainer)
    model = json.loads(training.to_str())["model"]
    raw.model = models.BPE(
        vocab=model["vocab"], merges=[tuple(pair) for pair in model["merges"]], byte_fallback=True, unk_token="<unk>",
        fuse_unk=True,
    )  # fmt: skip
    raw.add_special_tokens([AddedToken(name, normalized=False, special=True) for name in special])
    raw.add_tokens([AddedToken(run, normalized=False) for run in ("\n\n", "<table>")])
    PreTrainedTokenizerFast(
        tokenizer_object=raw, bos_token="<bos>", eos_token="<eos>", unk_token="<unk>", pad_token="<pad>"
    ).save_pretrained(folder)


def qwen(folder: Path) -> None:
    """Byte-level with NFC, marks beyond the model's vocabulary, vocab.json and merges.txt beside tokenizer.json."""
    raw = Tokenizer(models.BPE())
    raw.normalizer = normalizers.NFC()
    words = Regex(r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    raw.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(words, "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    raw.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    raw.train_from_iterator(
        english(), trainers.BpeTrainer(vocab_size=380, initial_alphabet=alphabet, show_progress=False)
    )
    raw.model.save(str(folder))
    marks = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    raw.add_special_tokens([AddedToken(name, normalized=False, special=True) for name in marks])
    PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<|im_end|>", pad_token="<|endoftext|>").save_pretrained(
        folder
    )


KINDS: dict[str, Callable[[Path], None]] = {"gemma": gemma, "qwen": qwen}


@pytest.fixture(scope="module")
def target(helpers: dict[str, Any]) -> list[str]:
    return helpers["sentences"](400, 7)


def expand(source: Path, out: Path, target: list[str], new_tokens: int = NEW) -> dict[str, Any]:
    out.mkdir(exist_ok=True)
    config = TokenizerConfig(strategy="expand", new_tokens=new_tokens, auxiliary_size=1000)
    return expand_tokenizer(source, lambda: iter([target]), lambda: iter([english()]), config, out)


@pytest.fixture(scope="module", params=KINDS)
def expanded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, target: list[str]) -> Any:
    """Folders of the source and of the expanded tokenizer, and the report."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("out")
    KINDS[request.param](source)
    return source, out, expand(source, out, target)


def ids(folder: Path, text: str) -> list[int]:
    return AutoTokenizer.from_pretrained(str(folder))(text, add_special_tokens=False)["input_ids"]


def test_every_new_token_is_produced_and_source_text_stays(expanded, target):
    source, out, report = expanded
    old, new = (AutoTokenizer.from_pretrained(str(folder)) for folder in (source, out))
    first = report["first_new_id"]
    assert first == len(old)
    used = {i for row in new(target, add_special_tokens=False)["input_ids"] for i in row}
    assert used >= set(range(first, first + NEW))
    assert new(english())["input_ids"] == old(english())["input_ids"]
    assert old.get_vocab().items() <= new.get_vocab().items()
    assert new.decode(new(SPACED, add_special_tokens=False)["input_ids"]) == old.decode(
        old(SPACED, add_special_tokens=False)["input_ids"]
    )
    marks = [name for name in old.get_vocab() if name.startswith("<") and not name.startswith("<0x")]
    text = "kali ".join(marks)
    assert [i for i in new(text)["input_ids"] if i < first and new.convert_ids_to_tokens(i) in marks] == [
        old.get_vocab()[name] for name in marks
    ]
    assert report["source_differences"] == report["target_differences"] == report["awkward_differences"] == 0


def test_added_tokens_keep_their_flags(expanded):
    old, new = (AutoTokenizer.from_pretrained(str(folder)).added_tokens_decoder for folder in expanded[:2])
    assert {i: repr(token) for i, token in new.items()} == {i: repr(token) for i, token in old.items()}


def test_slow_byte_level_tokenizers_cut_alike(tmp_path, target):
    (tmp_path / "source").mkdir()
    qwen(tmp_path / "source")
    expand(tmp_path / "source", tmp_path / "out", target)
    slow = GPT2Tokenizer(str(tmp_path / "out" / "vocab.json"), str(tmp_path / "out" / "merges.txt"))
    letters = [text for text in (*target[:100], *english(50)) if not any(c.isdigit() for c in text)]
    assert len(letters) > 50  # GPT-2's rule cuts digits in another way
    for text in letters:
        assert slow(text)["input_ids"] == ids(tmp_path / "out", text)


def test_a_bare_sentencepiece_model_can_be_expanded(trained, tmp_path, target, helpers):
    corpus = helpers["write_corpus"](tmp_path / "corpus", english(), [])
    helpers["run"](corpus, tmp_path / "made", TokenizerConfig(vocab_size=350))
    bare = tmp_path / "bare"
    bare.mkdir()
    shutil.copyfile(tmp_path / "made" / "tokenizer.model", bare / "tokenizer.model")
    report = expand(bare, tmp_path / "out", target)
    assert (report["first_new_id"], report["tokenizer_model"]) == (350, "kept")
    made, out = (
        AutoTokenizer.from_pretrained(str(tmp_path / "made")),
        AutoTokenizer.from_pretrained(str(tmp_path / "out")),
    )
    assert load_tokenizer(bare, "source").get_vocab() == made.get_vocab()
    assert out(english())["input_ids"] == made(english())["input_ids"]
    assert out.special_tokens_map == made.special_tokens_map


def test_a_folder_without_its_configuration_gets_one(tmp_path, target):
    source = tmp_path / "source"
    source.mkdir()
    qwen(source)
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        (source / name).unlink()
    raw = Tokenizer.from_file(str(source / "tokenizer.json"))
    raw.enable_truncation(3)
    raw.enable_padding(length=3)
    raw.save(str(source / "tokenizer.json"))
    expand(source, tmp_path / "out", target)
    made = AutoTokenizer.from_pretrained(str(tmp_path / "out"))
    assert (made.bos_token, made.eos_token) == ("<|endoftext|>", "<|endoftext|>")
    written = Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))
    assert (written.truncation, written.padding) == (None, None)
    assert len(written.encode("the house stands by the river").ids) > 3


def test_files_that_hold_the_old_vocabulary_alone_are_left_out(tmp_path, target):
    source = tmp_path / "source"
    source.mkdir()
    qwen(source)
    (source / "merges.txt").unlink()  # vocab.json cannot be read without it
    (source / "tekken.json").write_text("{}")
    (source / "tokenizer.model").write_bytes(b"no model")
    (source / "additional_chat_templates").mkdir()
    (source / "additional_chat_templates" / "tools.jinja").write_text("{{ tools }}")
    (source / "chat_template.jinja").write_text("{{ messages }}")
    report = expand(source, tmp_path / "out", target)
    assert report["tokenizer_model"].startswith("dropped: no SentencePiece model")
    assert {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()} == {
        "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja",
        "additional_chat_templates/tools.jinja",
    }  # fmt: skip
    templates = AutoTokenizer.from_pretrained(str(tmp_path / "out")).chat_template
    assert templates == {"default": "{{ messages }}", "tools": "{{ tools }}"}


def test_the_check_notes_what_was_not_proved(tmp_path, target, helpers):
    source = tmp_path / "source"
    source.mkdir()
    qwen(source)
    (source / "tokenizer.model").write_bytes(b"no model")
    corpus = helpers["write_corpus"](tmp_path / "corpus", target, ["kali mo"])
    config = TokenizerConfig(strategy="expand", new_tokens=10, auxiliary_size=1000)
    result = helpers["run"](corpus, tmp_path / "out", config, {"source_tokenizer": source})
    check = json.loads((tmp_path / "out" / "self_check.json").read_text())
    proof, model = check["notes"]
    assert proof == "no text of the source language was given: unchanged cuts are proved on other text alone"
    assert model.startswith("tokenizer.model is dropped: no SentencePiece model")
    assert check["expansion"]["new_tokens_produced"] == result.summary["new_tokens_produced"] == 10
    both = helpers["run"](corpus, tmp_path / "both", config, {"source_tokenizer": source, "source_corpus": corpus})
    assert both.summary["source_lines"] == len(target)


def test_a_large_vocabulary_file_is_written_in_one_go(tmp_path):
    """The time grows with the vocabulary, not with its square."""
    from time import perf_counter

    size = 20_000
    vocabulary = {f"t{n}": n for n in range(size)}
    spec = {"model": {"type": "BPE", "vocab": vocabulary, "merges": []}, "added_tokens": []}
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    start = perf_counter()
    assert write_expanded(tmp_path, spec, ["new"], size, []) == "none"
    assert perf_counter() - start < 5
    assert json.loads((tmp_path / "vocab.json").read_text())["new"] == size


def test_unigram_cannot_be_expanded(tmp_path, target, corpus, helpers):
    helpers["run"](corpus, tmp_path / "source", TokenizerConfig(algorithm="unigram", vocab_size=400))
    with pytest.raises(InputError, match=r"source tokenizer is Unigram, not BPE; choose a source model with"):
        expand(tmp_path / "source", tmp_path / "out", target)
