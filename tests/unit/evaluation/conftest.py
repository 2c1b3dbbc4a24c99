"""A tiny Llama with a word-level tokenizer, and corpora."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

WORDS = ["<unk>", "<s>", "</s>", "the", "cat", "sat", "on", "a", "mat", "dog", "ran", "."]


def build_tokenizer(bos: str | None = "<s>", eos: str | None = "</s>") -> PreTrainedTokenizerFast:
    inner = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=inner, bos_token=bos, eos_token=eos, unk_token="<unk>")


def build_model(vocabulary: int = len(WORDS), positions: int = 64) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=positions,
        initializer_range=0.5,
    )
    return LlamaForCausalLM(config).eval()


@pytest.fixture(scope="session")
def make_tokenizer() -> Callable[..., PreTrainedTokenizerFast]:
    return build_tokenizer


@pytest.fixture(scope="session")
def make_model() -> Callable[..., LlamaForCausalLM]:
    return build_model


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    build_model().save_pretrained(folder)
    build_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def make_corpus(tmp_path: Path) -> Callable[..., Path]:
    def make(texts: list[str], split: str = "test") -> Path:
        folder = tmp_path / "corpus"
        folder.mkdir(exist_ok=True)
        rows = {"text": pa.array(texts, pa.string()), "corpus": pa.array(["made"] * len(texts), pa.string())}
        pq.write_table(pa.table(rows), folder / f"{split}.parquet")
        return folder

    return make
