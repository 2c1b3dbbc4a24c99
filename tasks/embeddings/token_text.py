"""Tokens of any tokenizer as text that a person reads."""

import numpy as np
from numpy.typing import NDArray

from tasks.embeddings.canonical import Vocabulary

WORD_START = "▁"


def readable_tokens(vocabulary: Vocabulary) -> list[str]:
    """The text of each token with '▁' for a space (a word start); see `readable`."""
    return [readable(vocabulary, i) for i in range(len(vocabulary))]


def readable(vocabulary: Vocabulary, token_id: int) -> str:
    """The text that a token stands for, with '▁' for a space (a word start).

    The tokenizer's own string where there is no such text: special tokens, byte tokens, parts of a character.
    """
    if vocabulary.special[token_id] or vocabulary.byte[token_id]:
        return vocabulary.tokens[token_id]
    try:
        return vocabulary.surfaces[token_id].decode("utf-8").replace(" ", WORD_START)
    except UnicodeDecodeError:
        return vocabulary.tokens[token_id]


def ordinary(vocabulary: Vocabulary) -> NDArray[np.bool_]:
    """Which tokens stand for whole characters: bool [size]; no special tokens, byte tokens or parts of a character."""
    whole = np.array([not any("\udc80" <= letter <= "\udcff" for letter in key) for key in vocabulary.keys], dtype=bool)
    return whole & ~vocabulary.special & ~vocabulary.byte
