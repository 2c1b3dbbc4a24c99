"""Small tokenizers, and what initialisers are given, for the tests of the formulas."""

import numpy as np
import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from configs.schema import MappingConfig
from tasks.embeddings.canonical import vocabulary_of
from tasks.embeddings.registry import Ingredients, Tables
from tasks.embeddings.source_pieces import SourcePieces

SENTENCES = {
    "english": [
        "The baker sells fifteen loaves of bread on the market, and 7 rolls.",
        "In winter the old mill stands still; in spring it turns again!",
        "Nobody knows (not even the miller) how the mill was built.",
    ],
    "dutch": [
        "De bakker verkoopt vijftien broden op de markt, en 7 bolletjes.",
        "In de winter staat de oude molen stil; in de lente draait hij weer!",
        "Niemand weet (zelfs de molenaar niet) hoe de molen gebouwd is.",
    ],
    "russian": [
        "Пекарь продаёт пятнадцать буханок хлеба на рынке, и 7 булочек.",
        "Зимой старая мельница стоит; весной она снова крутится!",
        "Никто не знает (даже мельник), как построили мельницу.",
    ],
}


def metaspace(texts: list[str], size: int) -> PreTrainedTokenizerFast:
    """A BPE with "▁" and without bytes: characters it has not seen are unknown."""
    backend = Tokenizer(models.BPE(unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    specials = [AddedToken(token, special=True) for token in ("<unk>", "<s>", "</s>")]
    backend.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=size, special_tokens=specials, show_progress=False)
    )
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>", bos_token="<s>", eos_token="</s>")


def byte_level(texts: list[str], size: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE, with padding and without an unknown token."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
    )
    backend.add_special_tokens([AddedToken(token, special=True) for token in ("<|begin|>", "<|end|>", "<|pad|>")])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<|begin|>", eos_token="<|end|>", pad_token="<|pad|>"
    )


@pytest.fixture(scope="session")
def small_tokenizer():
    """(kind, language) -> tokenizer; kinds "metaspace" and "byte-level"."""
    kinds = {"metaspace": (metaspace, 260), "byte-level": (byte_level, 380)}
    made = {}

    def get(kind: str, language: str) -> PreTrainedTokenizerFast:
        if (kind, language) not in made:
            make, size = kinds[kind]
            made[kind, language] = make(SENTENCES[language] * 3, size)
        return made[kind, language]

    return get


@pytest.fixture
def given_for(small_tokenizer):
    """(source, target, dimension of the source tables, **mapping settings) -> (Ingredients, tables)."""

    def make(source, target, dimension=6, **settings):
        old, new = small_tokenizer(*source), small_tokenizer(*target)
        vocabulary = vocabulary_of(old)
        rng = np.random.default_rng(5)
        tables = Tables(*(rng.standard_normal((len(vocabulary), dimension)).astype(np.float32) for _ in range(2)))
        return Ingredients(
            target=vocabulary_of(new),
            source=vocabulary,
            pieces=SourcePieces(old, vocabulary),
            config=MappingConfig(**settings),
            tokenizers=(new, old),
            source_tables=lambda: tables,
        ), tables

    return make
