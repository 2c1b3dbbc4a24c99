"""Mean initialisation (fast vocabulary transfer, Gee et al. 2022): a new token is the mean of its old pieces."""

import numpy as np

from tasks.embeddings.matching import NONE, identical_tokens, special_tokens
from tasks.embeddings.registry import Ingredients, Initialiser
from tasks.embeddings.token_mapping import TokenMapping

ORIGINS = ("special", "shared", "mean", "fallback-unknown")
_SPECIAL, _SHARED, _MEAN, _UNKNOWN = range(4)


def build(given: Ingredients) -> TokenMapping:
    """Special tokens one to one, shared tokens copied, all others the mean of the source tokenizer's pieces.

    The pieces are those of the token's text with its word start; a token that holds part of a character takes the
    source's byte tokens. A token without pieces takes the source's unknown token, or stays uncovered where the source
    has none.
    """
    target, source = given.target, given.source
    one = special_tokens(target, source)
    origin = np.full(len(target), _UNKNOWN, dtype=np.uint8)
    origin[one != NONE] = _SPECIAL
    shared = identical_tokens(target, source)
    origin[shared != NONE] = _SHARED
    one = np.where(shared != NONE, shared, one)
    rest = np.flatnonzero((one == NONE) & ~target.special)
    positions, pieces = given.pieces.decompose([target.keys[i] for i in rest.tolist()])
    rows = rest[positions]
    origin[rows] = _MEAN
    if "unk" in source.roles:
        one[origin == _UNKNOWN] = source.roles["unk"]
    single = np.flatnonzero(one != NONE)
    return TokenMapping.from_coo(
        np.concatenate([single, rows]),
        np.concatenate([one[single], pieces]),
        np.ones(len(single) + len(rows)),
        (len(target), len(source)),
        origin,
        ORIGINS,
    )


METHOD = Initialiser(
    name="mean", build=build, paper="FVT, Gee et al. 2022; Mean in low-resource vocabulary expansion 2024"
)
