"""How often each token occurs in a text."""

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from tasks.tokenizer.cuts import cut


def token_frequencies(
    tokenizer: Tokenizer, batches: Iterable[list[str]], on_batch: Callable[[int], None] = lambda count: None
) -> NDArray[np.int64]:
    """Occurrences of every token id in the texts of `batches`, special tokens not added.

    Args:
        tokenizer: the tokenizer.
        batches: lists of texts; one list at a time is held.
        on_batch: called with the number of texts of each batch.

    Returns:
        int64 [largest id + 1]; ids that no token has count 0.
    """
    size = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1) + 1
    counts = np.zeros(size, dtype=np.int64)
    for texts in batches:
        counts += np.bincount(cut(tokenizer, texts).ids, minlength=size)
        on_batch(len(texts))
    return counts
