"""Random initialisation: new rows drawn like old ones, special tokens and (by choice) shared tokens kept."""

import numpy as np

from tasks.embeddings.matching import NONE, identical_tokens, special_tokens
from tasks.embeddings.registry import Ingredients, Initialiser
from tasks.embeddings.token_mapping import TokenMapping

ORIGINS = ("random", "special", "shared")


def build(given: Ingredients) -> TokenMapping:
    """Special tokens one to one; with `copy_shared`, tokens of the same text too; all other rows uncovered.

    Uncovered rows are drawn when the mapping is applied, from N(mean, standard deviation) of the source table in each
    dimension, with `config.seed`.
    """
    specials = special_tokens(given.target, given.source)
    shared = np.full(len(given.target), NONE, dtype=np.int64)
    if given.config.copy_shared:
        shared = identical_tokens(given.target, given.source)
    source_ids = np.where(specials != NONE, specials, shared)
    origin = np.where(specials != NONE, 1, np.where(shared != NONE, 2, 0)).astype(np.uint8)
    rows = np.flatnonzero(source_ids != NONE)
    return TokenMapping.from_coo(
        rows, source_ids[rows], np.ones(len(rows)), (len(given.target), len(given.source)), origin, ORIGINS
    )


METHOD = Initialiser(
    name="random", build=build, paper="baseline of trans-tokenization (Remy et al. 2024) and SAVA (2025)"
)
