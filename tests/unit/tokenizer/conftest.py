"""A small corpus of made sentences, and the tokenizer artifact trained on it."""

import random
from pathlib import Path

import pyarrow as pa
import pytest

from configs.schema import TokenizerConfig
from storage.tables import write_table
from tasks.contract import StageContext, StageResult, load_stage

SYLLABLES = ("ka", "li", "mo", "ne", "tu", "ra", "si", "vo", "be", "ŝa", "ĉi", "до", "ми")


def make_sentences(count: int, seed: int) -> list[str]:
    words = random.Random(0)
    lexicon = ["".join(words.choices(SYLLABLES, k=words.randint(1, 4))) for _ in range(500)]
    chooser = random.Random(seed)
    return [
        " ".join(chooser.choices(lexicon, k=chooser.randint(3, 10))) + chooser.choice([".", "!", " 12."])
        for _ in range(count)
    ]


def write_corpus(folder: Path, train: list[str], validation: list[str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, texts in (("train", train), ("validation", validation), ("test", [])):
        table = pa.table({"text": pa.array(texts, pa.string()), "corpus": pa.array(["made"] * len(texts), pa.string())})
        write_table(table, folder / f"{name}.parquet")
    return folder


def run_tokenizer(
    corpus: Path, out: Path, config: TokenizerConfig, inputs: dict[str, Path] | None = None
) -> StageResult:
    out.mkdir(parents=True, exist_ok=True)
    stage = load_stage("tokenizer")
    return stage.run(StageContext(config=config, inputs={"corpus": corpus, **(inputs or {})}, out=out, work=out))


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    validation = [*make_sentences(200, 2), "unseen ☃ and ▁ and <s> here", " two  spaces "]
    return write_corpus(tmp_path_factory.mktemp("corpus"), make_sentences(2000, 1), validation)


@pytest.fixture(scope="session")
def trained(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("tokenizer")
    run_tokenizer(corpus, out, TokenizerConfig(vocab_size=600))
    return out


@pytest.fixture(scope="session")
def helpers() -> dict[str, object]:
    return {"sentences": make_sentences, "write_corpus": write_corpus, "run": run_tokenizer}
