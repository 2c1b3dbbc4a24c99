"""What the training benchmark trains: small Llamas, tokenizers, text and mappings, made up or from real sentences."""

from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from benchmarks.alignment import data_folder
from benchmarks.alignment_corpora import read_rows
from storage.tables import write_table
from tasks.embeddings.canonical import vocabulary_of
from tasks.embeddings.mapping_files import write_mapping
from tasks.embeddings.token_mapping import TokenMapping
from tasks.sample.generator import generate_pairs

SPECIALS = ("<unk>", "<s>", "</s>", "<pad>")
LONGEST = 1024  # positions of the models
HEAD_WIDTH = 64
SUPPORT = (3, 17)  # entries of a mapping's row, the end exclusive


@dataclass(frozen=True)
class Shape:
    """A Llama: rows of its vocabulary, width, layers."""

    vocabulary: int
    width: int
    layers: int

    @property
    def inner(self) -> int:
        """Width inside a layer's perceptron."""
        return self.width * 11 // 4

    @property
    def body(self) -> int:
        """Parameters of the layers' matrices."""
        return self.layers * (4 * self.width**2 + 3 * self.width * self.inner)

    def __str__(self) -> str:
        return f"{self.vocabulary:,} x {self.width}, {self.layers} layers"


def sample_sentences(count: int) -> list[str]:
    """Sentences of the bundled sample, Esperanto."""
    return [pair.target for pair in generate_pairs(count, 0)]


def real_sentences(count: int) -> list[str]:
    """Swahili news, sentence by sentence, from the folder of real text; none where that is not there."""
    data = data_folder()
    file = None if data is None else data / "parallel" / "en-sw" / "lafand-train.NC.tsv.zst"
    if file is None or not file.exists():
        return []
    return [row[1] for row in islice(read_rows(file), count)]


def made_up_sentences(count: int, vocabulary: int, words: int = 20) -> list[str]:
    """Sentences of `words` words of which there are `vocabulary`, each a token of `word_tokenizer`; Zipf's law."""
    ranks = np.random.default_rng(0).zipf(1.2, size=(count, words)) % (vocabulary - len(SPECIALS))
    return [" ".join(f"w{rank}" for rank in row) for row in ranks.tolist()]


def word_tokenizer(vocabulary: int) -> PreTrainedTokenizerFast:
    """A tokenizer of made-up words."""
    tokens = [*SPECIALS, *(f"w{rank}" for rank in range(vocabulary - len(SPECIALS)))]
    backend = Tokenizer(models.WordLevel({token: n for n, token in enumerate(tokens)}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return _with_specials(backend)


def trained_tokenizer(texts: list[str], vocabulary: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE trained on `texts`; it may end with fewer tokens."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[AddedToken(token, special=True) for token in SPECIALS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(texts, trainer)
    return _with_specials(backend)


def write_model(folder: Path, tokenizer: PreTrainedTokenizerFast, shape: Shape, seed: int = 0) -> Path:
    """A random Llama with its tokenizer; its head is a matrix of its own."""
    config = LlamaConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.width,
        intermediate_size=shape.inner,
        num_hidden_layers=shape.layers,
        num_attention_heads=max(1, shape.width // HEAD_WIDTH),
        max_position_embeddings=LONGEST,
        tie_word_embeddings=False,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=None,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def write_corpus(folder: Path, texts: list[str]) -> Path:
    """The texts as a training split."""
    folder.mkdir()
    write_table(pa.table({"text": texts, "corpus": ["own"] * len(texts)}), folder / "train.parquet")
    return folder


def write_random_mapping(folder: Path, target: PreTrainedTokenizerFast, source: PreTrainedTokenizerFast) -> Path:
    """Rows of 3 to 16 source tokens, as trans-tokenization makes them (which tokens does not matter for speed)."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    rows = np.repeat(np.arange(len(target)), rng.integers(*SUPPORT, size=len(target)))
    ids, weights = rng.integers(0, len(source), len(rows)), rng.random(len(rows)) + 0.1
    mapping = TokenMapping.from_coo(rows, ids, weights, (len(target), len(source)))
    frequency = np.ones(len(target), dtype=np.int64)
    write_mapping(folder, mapping, vocabulary_of(target), vocabulary_of(source), frequency, seed=0)
    return folder


def _with_specials(backend: Tokenizer) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token="<unk>", bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )
