"""Shared tokens that keep their rows, whatever an initialiser made of them."""

import numpy as np

from tasks.embeddings.canonical import Vocabulary
from tasks.embeddings.copied_rows import SHARED, SPECIAL, copied_rows
from tasks.embeddings.dense_rows import DenseRows
from tasks.embeddings.token_mapping import TokenMapping


def with_kept_rows(built: TokenMapping | DenseRows, target: Vocabulary, source: Vocabulary) -> TokenMapping | DenseRows:
    """`built`, but special and shared tokens are copies of their old rows (see `copied_rows`).

    Args:
        built: what an initialiser made.
        target: the new vocabulary.
        source: the old vocabulary.
    """
    mapping = built.mapping if isinstance(built, DenseRows) else built
    copied = copied_rows(target, source)
    kept = copied.rows
    names = tuple(dict.fromkeys([*mapping.origin_names, SPECIAL, SHARED]))
    origin = mapping.origin.copy()
    origin[kept] = names.index(SHARED)
    origin[copied.special] = names.index(SPECIAL)
    is_kept = np.zeros(mapping.target_size, dtype=bool)
    is_kept[kept] = True
    row_of_entry = mapping.rows.row_of_entry()
    others = ~is_kept[row_of_entry]
    merged = TokenMapping.from_coo(
        np.concatenate([row_of_entry[others], kept]),
        np.concatenate([mapping.source_ids[others], copied.source_ids[kept]]),
        np.concatenate([mapping.weights[others], np.ones(len(kept))]),
        mapping.shape,
        origin,
        names,
    )
    if not isinstance(built, DenseRows):
        return merged
    left = ~is_kept[built.rows]
    return DenseRows(merged, built.rows[left], built.input[left], None if built.head is None else built.head[left])
