"""Vectors of a tokenizer's tokens in a space of word vectors (WECHSEL, section 3.1; OFA)."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.embeddings.canonical import Vocabulary
from tasks.embeddings.word_vectors import WordVectors

_BATCH = 8192
Form = Callable[[str], str]
WITH_AND_WITHOUT_SPACE: tuple[Form, ...] = (str, lambda word: " " + word)


def subword_vectors(
    vocabulary: Vocabulary, tokenizer: Any, found: WordVectors, spelled: bool = True
) -> NDArray[np.float32]:
    """The vector of each token as WECHSEL has it; a row of zeros where it has none.

    With `spelled`, and where the word vectors have character n-grams: that of the token's text, without its word start.
    Else the mean of the words that hold the token, weighted by how often they occur.

    Args:
        vocabulary: the vocabulary.
        tokenizer: its tokenizer (transformers' fast tokenizer).
        found: the word vectors.
        spelled: whether n-grams are used where there are any.

    Returns:
        float32 [tokens, d].
    """
    if spelled and found.spelled is not None:
        return _of_spelling(vocabulary, found)
    return mean_of_words(len(vocabulary), tokenizer, found, WITH_AND_WITHOUT_SPACE)


def mean_of_words(size: int, tokenizer: Any, found: WordVectors, forms: Sequence[Form]) -> NDArray[np.float32]:
    """For each token, the mean of the words that hold it, weighted by `found.counts`; zeros where no word does.

    Each word is cut in each of its forms; a token counts once for each form that it is in.

    Args:
        size: tokens of the vocabulary.
        tokenizer: its tokenizer (transformers' fast tokenizer).
        found: the word vectors.
        forms: how a word is written for the tokenizer: with a space before it, in capitals.

    Returns:
        float32 [tokens, d].
    """
    total = np.zeros((size, found.vectors.shape[1]))
    weight = np.zeros(size)
    for form in forms:
        for start in range(0, len(found.words), _BATCH):
            words = [form(word) for word in found.words[start : start + _BATCH]]
            encodings = tokenizer.backend_tokenizer.encode_batch(words, add_special_tokens=False)
            ids = [np.unique(encoding.ids) for encoding in encodings]
            of_word = np.repeat(np.arange(start, start + len(words)), [len(part) for part in ids])
            tokens = np.concatenate([np.zeros(0, dtype=np.int64), *ids]).astype(np.int64)
            counts = found.counts[of_word]
            order = np.argsort(tokens, kind="stable")
            starts = np.flatnonzero(np.diff(tokens[order], prepend=-1))
            weighted = found.vectors[of_word[order]] * counts[order][:, None]
            if len(starts):
                total[tokens[order][starts]] += np.add.reduceat(weighted, starts, axis=0)
            weight += np.bincount(tokens, weights=counts, minlength=size)
    held = weight > 0
    total[held] /= weight[held][:, None]
    return total.astype(np.float32)


def _of_spelling(vocabulary: Vocabulary, found: WordVectors) -> NDArray[np.float32]:
    result = np.zeros((len(vocabulary), found.vectors.shape[1]), dtype=np.float32)
    if found.spelled is None:
        return result
    for i in np.flatnonzero(~vocabulary.special & ~vocabulary.byte).tolist():
        text = vocabulary.keys[i].strip()
        if text and not any("\udc80" <= character <= "\udcff" for character in text):
            vector = found.spelled(text)
            if vector is not None:
                result[i] = vector
    return result
