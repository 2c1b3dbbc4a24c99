"""Word vectors: read from a file, or trained by fastText's method."""

import struct
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from configs.schema import FastTextConfig
from tasks.contract import InputError
from tasks.embeddings.text_lines import numbered_lines


@dataclass(frozen=True)
class WordVectors:
    """Vectors of words.

    Attributes:
        words: the words, most frequent first.
        vectors: float32 [words, d].
        counts: float64 [words]: how often each occurs; where a file does not say, 1 / (rank + 1), as Zipf's law has it.
        spelled: the vector of any text from its character n-grams, float32 [d], or None where it has none; None where
            only whole words have vectors.
    """

    words: Sequence[str]
    vectors: NDArray[np.float32]
    counts: NDArray[np.float64]
    spelled: Callable[[str], NDArray[np.float32] | None] | None = None


def read_word_vectors(path: Path) -> WordVectors:
    """Vectors in word2vec's text format (plain, .gz, .zst), or in fastText's binary format (.bin, with n-grams).

    Raises:
        InputError: the file cannot be read, a line has another number of values than the first, a value is no finite
            number, or there are no vectors.
    """
    if path.suffix == ".bin":
        return _of_gensim(_load_binary(path))
    words: list[str] = []
    numbers = array("f")
    width = 0
    for number, line in numbered_lines(path, "word vectors"):
        word, *values = line.rstrip(" ").split(" ")
        if number == 1 and len(values) == 1:
            continue  # the header: words and dimensions
        try:
            row = np.array(values, dtype=np.float32)
        except ValueError as error:
            raise InputError(f"word vectors {path.name}, line {number}: {error}; a word holds no space") from error
        width = width or len(row)
        if not len(row) or len(row) != width or not np.isfinite(row).all():
            raise InputError(
                f"word vectors {path.name}, line {number}: {len(row)} values for {word!r}, expected "
                f"{width or 'some'}, all finite"
            )
        words.append(word)
        numbers.frombytes(row.tobytes())
    if not words:
        raise InputError(f"word vectors {path.name}: there are none in it")
    vectors = np.frombuffer(numbers, dtype=np.float32).reshape(len(words), width)
    return WordVectors(words, vectors, 1.0 / np.arange(2, len(words) + 2))


def train_word_vectors(sentences: Iterable[Sequence[str]], config: FastTextConfig, seed: int) -> WordVectors:
    """Vectors by fastText (CBOW with character n-grams) of the words of `sentences`, the same for the same seed.

    Trained by gensim in one thread; what gensim sets otherwise than the fastText program (learning rate, subsampling,
    distribution of the negative samples) is set as the program has it.

    Args:
        sentences: lists of words; gone through once for the vocabulary and once an epoch.
        config: the parameters.
        seed: seed of the initial vectors and the samples.

    Raises:
        InputError: no word occurs `config.min_count` times, or gensim is not installed.
    """
    model = _gensim().FastText(
        vector_size=config.dimension, window=config.window, min_count=config.min_count, sg=0, hs=0,
        negative=config.negative, ns_exponent=0.5, sample=1e-4, alpha=0.05, min_alpha=0.0, workers=1, seed=seed,
        min_n=config.min_n, max_n=config.max_n, bucket=config.buckets,
    )  # fmt: skip
    model.build_vocab(corpus_iterable=sentences)
    if not len(model.wv):
        raise InputError(
            f"word vectors: no word occurs {config.min_count} times in the text; give more text or a smaller min_count"
        )
    model.train(corpus_iterable=sentences, total_examples=model.corpus_count, epochs=config.epochs)
    return _of_gensim(model.wv)


def _of_gensim(vectors: Any) -> WordVectors:
    def spelled(text: str) -> NDArray[np.float32] | None:
        try:
            return np.asarray(vectors.get_vector(text), dtype=np.float32)
        except KeyError:  # too short for an n-gram
            return None

    counts = [float(vectors.get_vecattr(word, "count")) for word in vectors.index_to_key]
    return WordVectors(
        list(vectors.index_to_key), np.asarray(vectors.vectors, np.float32), np.array(counts, np.float64), spelled
    )


def _load_binary(path: Path) -> Any:
    gensim = _gensim()
    try:
        return gensim.load_facebook_vectors(str(path))
    except (OSError, EOFError, ValueError, NotImplementedError, struct.error) as error:
        raise InputError(f"word vectors {path.name}: not in fastText's binary format: {error}") from error


def _gensim() -> Any:
    try:
        from gensim.models import fasttext
    except ImportError as error:
        raise InputError(
            "training word vectors and reading fastText's .bin files need gensim: pip install 'langadapt[vectors]', "
            "or give vectors in word2vec's text format"
        ) from error
    return fasttext
