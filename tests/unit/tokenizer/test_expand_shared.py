"""Expansion of real tokenizers on real text."""

import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard
from sentencepiece import SentencePieceProcessor

from configs.schema import TokenizerConfig
from tasks.tokenizer.expand import expand_tokenizer

pytestmark = pytest.mark.shared_data
LINES = 800


def read(path: Path, column: int | None = None) -> list[str]:
    with path.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as stream:
        lines = io.TextIOWrapper(stream, encoding="utf-8").read().split("\n")
    if column is not None:
        lines = [line.split("\t")[column] for line in lines[1:] if "\t" in line]
    return [line for line in lines if line][:LINES]


def source_folder(data: Path, name: str, folder: Path) -> Path:
    found = data / "tokenizers" / name
    if not found.is_dir():
        pytest.skip(f"no tokenizer {name}")
    if name != "mistral-v3-33k":
        return found
    # its user-defined pieces are read by transformers alone, which needs the model's config.json
    shutil.copyfile(found / "tokenizer.model", folder / "tokenizer.model")
    (folder / "config.json").write_text('{"model_type": "mistral"}')
    return folder


def text_of(data: Path, language: str) -> list[str]:
    path, column = {
        "sw": ("parallel/en-sw/lafand-train.NC.tsv.zst", 1),
        "et": ("parallel/en-et/bible.tsv.zst", 1),
        "hi": ("mono/hi/mlqa-wikipedia.txt.zst", None),
        "en": ("parallel/en-sw/lafand-train.NC.tsv.zst", 0),
    }[language]
    if not (data / path).is_file():
        pytest.skip(f"no {path}")
    return read(data / path, column)


@pytest.mark.parametrize(
    ("name", "language", "new_tokens"),
    [
        ("llama2-32k", "sw", 100),
        ("llama2-32k", "hi", 500),
        ("mistral-v1-32k", "et", 1000),
        ("mistral-v3-33k", "sw", 100),
        ("gpt2-50k", "sw", 1000),
        ("gpt-neox-20b", "et", 500),
        ("whisper-multilingual-50k", "et", 100),
    ],
)
def test_real_tokenizers(shared_data: Path, tmp_path: Path, name: str, language: str, new_tokens: int) -> None:
    (tmp_path / "source").mkdir(), (tmp_path / "out").mkdir()
    source, out = source_folder(shared_data, name, tmp_path / "source"), tmp_path / "out"
    texts, english = text_of(shared_data, language), text_of(shared_data, "en")

    def batches(lines: list[str]) -> Iterator[list[str]]:
        yield from (lines[i : i + 500] for i in range(0, len(lines), 500))

    config = TokenizerConfig(strategy="expand", new_tokens=new_tokens)
    report = expand_tokenizer(source, lambda: batches(texts), lambda: batches(english), config, out)
    assert report["new_tokens_produced"] >= 0.99 * new_tokens
    assert report["source_differences"] == report["target_differences"] == 0
    assert report["target_tokens_after"] < report["target_tokens_before"]
    assert report["tokenizer_model"] == ("kept" if (source / "tokenizer.model").is_file() else "none")
    old, new = loaded(source), loaded(out)
    assert old.get_vocab().items() <= new.get_vocab().items()
    first = report["first_new_id"]
    for text in english[:300]:
        before, after = old(text)["input_ids"], new(text)["input_ids"]
        assert before == after or max(after) >= first
    if report["tokenizer_model"] == "kept":
        slow = SentencePieceProcessor(model_file=str(out / "tokenizer.model"))
        for text in (*texts[:200], *english[:200]):
            assert slow.encode(text) == new(text, add_special_tokens=False)["input_ids"]


def loaded(folder: Path) -> Any:
    from tasks.pretrained import load_tokenizer

    return load_tokenizer(folder, "tokenizer")


def test_added_tokens_outside_the_model_keep_their_ids(shared_data: Path) -> None:
    from tokenizers import Tokenizer

    from tasks.tokenizer.expand_spec import add_tokens, token_ids

    path = shared_data / "tokenizers" / "gpt-neox-20b" / "tokenizer.json"
    if not path.is_file():
        pytest.skip("no tokenizer gpt-neox-20b")
    spec = json.loads(path.read_text())
    outside = {t["content"]: t["id"] for t in spec["added_tokens"] if t["content"] not in spec["model"]["vocab"]}
    assert outside
    new = Tokenizer.from_str(json.dumps(add_tokens(spec, ["Ġkwa"])))
    assert {token: new.token_to_id(token) for token in outside} == outside
    assert new.token_to_id("Ġkwa") == max(token_ids(spec).values()) + 1
