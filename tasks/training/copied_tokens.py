"""Which tokens of a new vocabulary are old tokens: their rows are copies, not estimates."""

import numpy as np
from numpy.typing import NDArray

from tasks.embeddings.copied_rows import SHARED, SPECIAL
from tasks.embeddings.token_mapping import TokenMapping

COPIES = (SPECIAL, SHARED, "identical")
"""Origins of rows that are the old row of the same token ('identical': trans-tokenization without another partner)."""


def copied_tokens(mapping: TokenMapping) -> NDArray[np.int64]:
    """The target ids whose row is the source row of the same token, ascending: int64.

    By origin, and with one source token only: a token of the same text in both vocabularies whose row is a mixture is
    none, nor is one that has the row of its translation or of the unknown token.
    """
    codes = [code for code, name in enumerate(mapping.origin_names) if name in COPIES]
    return np.flatnonzero(np.isin(mapping.origin, codes) & (mapping.rows.counts() == 1))
