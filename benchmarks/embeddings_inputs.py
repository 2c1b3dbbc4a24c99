"""Made-up vocabularies, tokenizers and text for benchmarks/embeddings.py; the same each time."""

from collections.abc import Iterator

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from tasks.embeddings.canonical import Vocabulary

ONSETS = ["", "b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z", "st", "kr", "mw", "ng", "sh"]
VOWELS = ["a", "e", "i", "o", "u", "aa", "ei"]


def words(count: int, seed: int) -> list[str]:
    """Different words of one to five syllables, as long ones as a vocabulary has."""
    rng = np.random.default_rng(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        sizes = rng.integers(1, 6, size=count)
        onsets, vowels = (rng.integers(0, len(parts), size=(count, 5)) for parts in (ONSETS, VOWELS))
        for size, onset, vowel in zip(sizes.tolist(), onsets.tolist(), vowels.tolist(), strict=True):
            word = "".join(ONSETS[o] + VOWELS[v] for o, v in zip(onset[:size], vowel[:size], strict=True))
            found.setdefault(word)
    return list(found)[:count]


def sentences(count: int, seed: int, of: int = 60_000) -> Iterator[str]:
    """Sentences of 20 words, frequent and rare ones as in language."""
    lexicon = words(of, seed)
    rng = np.random.default_rng(seed + 1)
    for _ in range(count):
        ranks = np.minimum(rng.zipf(1.2, size=20), of) - 1
        yield " ".join(lexicon[rank] for rank in ranks.tolist()) + "."


def tokenizer(size: int, seed: int) -> PreTrainedTokenizerFast:
    """A BPE with "▁" trained on such sentences."""
    backend = Tokenizer(models.BPE(unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    specials = [AddedToken(token, special=True) for token in ("<unk>", "<s>", "</s>")]
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=specials, show_progress=False)
    backend.train_from_iterator([*words(60_000, seed), *sentences(5_000, seed)], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>", bos_token="<s>", eos_token="</s>")


def vocabulary(texts: list[str]) -> Vocabulary:
    """A vocabulary of these texts, all of which start a word, and <unk>."""
    tokens = ["<unk>", *("▁" + text for text in texts)]
    surfaces = [b"", *((" " + text).encode() for text in texts)]
    special = np.arange(len(tokens)) == 0
    return Vocabulary(tokens, surfaces, np.zeros(len(tokens), dtype=bool), special, {"unk": 0})


class NoPieces:
    """Stands in for a source tokenizer that is never asked."""

    def decompose(self, keys: list[str]) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
