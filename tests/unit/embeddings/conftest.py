"""Small tokenizers of three kinds, and a tiny Llama."""

from pathlib import Path

import pytest
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from configs.schema import TokenizerConfig
from tasks.tokenizer.convert import fast_tokenizer, write_tokenizer
from tasks.tokenizer.sentencepiece_bpe import train_bpe

ENGLISH = [
    "The old house stands beside the river, and fifteen children play in the garden.",
    "She wrote 15 letters to her friends; nobody answered (not even her brother)!",
    "Houses, gardens and rivers are what the children like to draw.",
    "A teacher reads a letter from a friend who lives near the old bridge.",
] * 3
DUTCH = [
    "Het oude huis staat naast de rivier en vijftien kinderen spelen in de tuin.",
    "Zij schreef 15 brieven aan haar vrienden; niemand antwoordde (zelfs haar broer niet)!",
    "Huizen, tuinen en rivieren tekenen de kinderen graag.",
] * 3
RUSSIAN = [
    "Старый дом стоит у реки, и пятнадцать детей играют в саду.",
    "Она написала 15 писем своим друзьям; никто не ответил!",
    "Дети любят рисовать дома, сады и реки.",
] * 3


def sentencepiece(folder: Path, texts: list[str], size: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    model = train_bpe(texts, TokenizerConfig(vocab_size=size))
    write_tokenizer(model, fast_tokenizer(model), folder)
    return folder


def byte_level(folder: Path, texts: list[str], size: int, specials: dict[str, str]) -> Path:
    """A byte-level BPE without an unknown token, as Llama 3 and GPT-2 have."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in specials.values()])
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **specials).save_pretrained(str(folder))
    return folder


@pytest.fixture(scope="session")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("tokenizers")
    ends = {"bos_token": "<|begin|>", "eos_token": "<|end|>"}
    return {
        "english": sentencepiece(root / "english", ENGLISH, 380),
        "dutch": sentencepiece(root / "dutch", DUTCH, 400),
        "russian": sentencepiece(root / "russian", RUSSIAN, 400),
        "english-bytes": byte_level(root / "english-bytes", ENGLISH, 350, ends),
        "russian-bytes": byte_level(root / "russian-bytes", RUSSIAN, 400, {**ends, "pad_token": "<|pad|>"}),
    }


@pytest.fixture(scope="session")
def tiny_llama():
    """Makes a model folder: (folder, rows, tied, dtype, tokenizer folder or None) -> folder."""

    def make(folder: Path, rows: int, tied: bool = False, dtype: torch.dtype = torch.float32) -> Path:
        torch.manual_seed(0)
        config = LlamaConfig(
            vocab_size=rows, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
            num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=tied, pad_token_id=None,
        )  # fmt: skip
        model = LlamaForCausalLM(config).to(dtype)
        model.save_pretrained(str(folder))
        return folder

    return make
