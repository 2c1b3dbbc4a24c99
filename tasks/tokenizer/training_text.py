"""The text a vocabulary is made from: samples of the corpora of one language or several, at most so much of each."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from configs.schema import TokenizerConfig
from storage.tables import read_batches
from tasks.tokenizer.sample import sample_texts

_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}"
_WORD = rf"[{_UNSPACED}]|[^\s\p{{Z}}{_UNSPACED}]+"
_VALIDATION_BATCH = 2048
_SOURCE_SENTENCES = 20_000


def corpora_of(inputs: Mapping[str, Path]) -> list[Path]:
    """The corpora among a stage's inputs: that of the language itself, then `corpus.<code>` in the order of the codes.

    So the order in which a configuration names the languages does not matter.
    """
    return [inputs["corpus"], *(inputs[name] for name in sorted(inputs) if name.startswith("corpus."))]


class TrainingText:
    """The training text of each corpus in turn, from its beginning each time it is called.

    Attributes:
        sentences: sentences given by the newest call, so far.
    """

    def __init__(self, corpora: list[Path], config: TokenizerConfig) -> None:
        """Text of the train.parquet of `corpora`; sentences and words of each, and the seed, as `config` says."""
        self.sentences = 0
        self._corpora = corpora
        self._config = config

    def __call__(self) -> Iterator[list[str]]:
        """The texts, in lists of one batch of rows each."""
        self.sentences = 0
        for corpus in self._corpora:
            for texts in self._of(corpus / "train.parquet"):
                self.sentences += len(texts)
                yield texts

    def _of(self, path: Path) -> Iterator[list[str]]:
        config = self._config
        if config.max_tokens_per_language is None:
            return sample_texts(path, config.max_sentences, config.seed)
        return limited_texts(path, config.max_sentences, config.max_tokens_per_language, config.seed)


def validation_texts(corpora: list[Path]) -> Iterator[list[str]]:
    """The validation text of each corpus in turn."""
    for corpus in corpora:
        for batch in read_batches(corpus / "validation.parquet", ["text"], _VALIDATION_BATCH):
            yield batch.column(0).to_pylist()


def source_texts_of(inputs: Mapping[str, Path], seed: int) -> Callable[[], Iterator[list[str]]] | None:
    """A sample of the source language's text: of `source_corpus`, or of the source side of `bitext`; None: no input."""
    name, column = ("source_corpus", "text") if "source_corpus" in inputs else ("bitext", "source")
    if name not in inputs:
        return None
    path = inputs[name] / "train.parquet"
    return lambda: sample_texts(path, _SOURCE_SENTENCES, seed, column)


def limited_texts(path: Path, sentences: int, words: int, seed: int) -> Iterator[list[str]]:
    """At most `sentences` texts of a file, and of these a random set of at most `words` words, in file order.

    The file is read twice, and some 30 bytes are held for each sentence of the first sample. One sentence is given even
    where it is longer than the limit.

    Args:
        path: Parquet file with a column `text`.
        sentences: most texts taken.
        words: most words taken, as `count_words` counts them.
        seed: seed of both choices.

    Yields:
        The texts taken from each batch of rows.
    """
    counts = np.concatenate(
        [np.zeros(0, np.int32), *(count_words(batch) for batch in sample_texts(path, sentences, seed))]
    )
    taken = _within(counts, words, seed)
    start = 0
    for batch in sample_texts(path, sentences, seed):
        chosen = taken[start : start + len(batch)]
        start += len(batch)
        if chosen.any():
            yield [text for text, is_taken in zip(batch, chosen.tolist(), strict=True) if is_taken]


def count_words(texts: list[str]) -> NDArray[np.int32]:
    """Words of each text: int32 [texts].

    White-space words; but each character of a script that is written without spaces counts as one word, or the limit
    would let through some hundred times as much of it.
    """
    counts = pc.count_substring_regex(pa.array(texts, pa.string()), _WORD)
    return np.asarray(counts.to_numpy(zero_copy_only=False), dtype=np.int32)


def _within(counts: NDArray[np.int32], words: int, seed: int) -> NDArray[np.bool_]:
    """The sentences taken: the first ones of a random order whose words do not exceed `words`, but at least one."""
    order = np.random.default_rng(seed).permutation(len(counts))
    fitting = int(np.searchsorted(np.cumsum(counts[order], dtype=np.int64), words, side="right"))
    taken = np.zeros(len(counts), dtype=bool)
    taken[order[: max(1, fitting)]] = True
    return taken
