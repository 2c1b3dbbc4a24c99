"""The initialisers by name; each module declares one as `METHOD`."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from configs.schema import MappingConfig
from tasks.embeddings.canonical import Vocabulary
from tasks.embeddings.source_pieces import SourcePieces
from tasks.embeddings.token_mapping import TokenMapping

INITIALISERS: dict[str, str] = {
    "mean": "tasks.embeddings.init.mean",
    "random": "tasks.embeddings.init.random",
    "trans-tokenization": "tasks.embeddings.init.trans_tokenization",
}


@dataclass(frozen=True)
class TokenPairs:
    """Counts of aligned token pairs.

    Attributes:
        target_ids: int64 [pairs].
        source_ids: int64 [pairs].
        counts: float64 [pairs], not negative.
    """

    target_ids: NDArray[np.int64]
    source_ids: NDArray[np.int64]
    counts: NDArray[np.float64]


@dataclass(frozen=True)
class Ingredients:
    """What an initialiser may use.

    Attributes:
        target: the new vocabulary.
        source: the old vocabulary.
        pieces: how the source tokenizer cuts a text.
        config: the mapping's configuration.
        pairs: aligned token pairs; there when the initialiser's `needs` has "counts".
    """

    target: Vocabulary
    source: Vocabulary
    pieces: SourcePieces
    config: MappingConfig
    pairs: TokenPairs | None = None


@dataclass(frozen=True)
class Initialiser:
    """An initialiser's declaration.

    Attributes:
        name: name in configurations.
        build: makes the mapping.
        needs: inputs beside the two tokenizers ("counts").
        paper: where it is defined.
    """

    name: str
    build: Callable[[Ingredients], TokenMapping]
    paper: str
    needs: tuple[str, ...] = ()


def load_initialiser(name: str) -> Initialiser:
    """The initialiser `name`.

    Raises:
        KeyError: no initialiser has that name.
    """
    method = importlib.import_module(INITIALISERS[name]).METHOD
    if not isinstance(method, Initialiser) or method.name != name:
        raise TypeError(f"{INITIALISERS[name]} declares {method!r}, expected the initialiser {name!r}")
    return method
