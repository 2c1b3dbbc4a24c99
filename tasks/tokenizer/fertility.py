"""Tokens a word, tokens a byte and the share of words that are cut, by character offsets."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import regex
from numpy.typing import NDArray

WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")
_BLANK = regex.compile(r"[\s▁Ġ]*")


@dataclass(frozen=True)
class Fertility:
    """Totals over a text (all counts), from which the ratios follow."""

    sentences: int = 0
    words: int = 0
    characters: int = 0
    bytes: int = 0
    tokens: int = 0
    continued_words: int = 0

    def __add__(self, other: "Fertility") -> "Fertility":
        return Fertility(**{name: getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__})

    @property
    def tokens_per_word(self) -> float:
        """Fertility; 0 when the text has no words."""
        return self.tokens / self.words if self.words else 0.0

    @property
    def tokens_per_byte(self) -> float:
        """Tokens a UTF-8 byte; 0 when the text is empty."""
        return self.tokens / self.bytes if self.bytes else 0.0

    @property
    def continued_word_share(self) -> float:
        """Share of words cut into two tokens or more; 0 when the text has no words."""
        return self.continued_words / self.words if self.words else 0.0


def measure(tokenizer: Any, batches: Iterable[list[str]]) -> Fertility:
    """Totals of `batches` of texts under a fast tokenizer, special tokens left out.

    A word is a run of letters, marks and digits; a token belongs to each word whose characters it touches, so words do
    not depend on the tokenizer. A token of white space alone (the bare `▁` before a digit) belongs to no word.

    Args:
        tokenizer: transformers' fast tokenizer, or tokenizers' own.
        batches: lists of texts; one list at a time is held.
    """
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    blank = _blank_tokens(backend)
    total = Fertility()
    for texts in batches:
        total += _measure_batch(backend, blank, texts)
    return total


def words_touched(words: NDArray[np.int64], tokens: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many tokens touch each word.

    Args:
        words: int64 [words, 2]: start and end of each word, ascending, not overlapping.
        tokens: int64 [tokens, 2]: start and end of each token, both ascending (equal spans allowed: bytes of one
            character).

    Returns:
        int64 [words].
    """
    first = np.searchsorted(tokens[:, 1], words[:, 0], side="right")
    last = np.searchsorted(tokens[:, 0], words[:, 1], side="left")
    return np.maximum(0, last - first)


def _measure_batch(backend: Any, blank: NDArray[np.bool_], texts: list[str]) -> Fertility:
    encodings = backend.encode_batch(texts, add_special_tokens=False)
    lengths = np.array([len(text) for text in texts], dtype=np.int64)
    base = np.concatenate([[0], np.cumsum(lengths + 1)[:-1]]) if texts else np.zeros(0, dtype=np.int64)
    words = _shifted([[match.span() for match in WORD.finditer(text)] for text in texts], base)
    tokens = _shifted([encoding.offsets for encoding in encodings], base)
    ids = np.array([i for encoding in encodings for i in encoding.ids], dtype=np.int64)
    kept = tokens[~blank[ids]]
    return Fertility(
        sentences=len(texts),
        words=len(words),
        characters=int(lengths.sum()),
        bytes=sum(len(text.encode()) for text in texts),
        tokens=len(ids),
        continued_words=int((words_touched(words, kept) > 1).sum()),
    )


def _shifted(spans: list[list[tuple[int, int]]], base: NDArray[np.int64]) -> NDArray[np.int64]:
    """The spans of all texts as one int64 [spans, 2], each text's moved by its `base`."""
    flat = np.array([span for text in spans for span in text], dtype=np.int64).reshape(-1, 2)
    return flat + np.repeat(base, [len(text) for text in spans])[:, None]


def _blank_tokens(backend: Any) -> NDArray[np.bool_]:
    """Which token ids stand for white space alone: bool [largest id + 1]."""
    vocabulary = backend.get_vocab(with_added_tokens=True)
    blank = np.zeros(max(vocabulary.values()) + 1, dtype=bool)
    blank[[i for token, i in vocabulary.items() if _BLANK.fullmatch(token)]] = True
    return blank
