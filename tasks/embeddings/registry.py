"""The initialisers by name; each module declares one as `METHOD`."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from configs.schema import MappingConfig
from tasks.embeddings.canonical import Vocabulary
from tasks.embeddings.dense_rows import DenseRows
from tasks.embeddings.source_pieces import SourcePieces
from tasks.embeddings.token_mapping import TokenMapping

INITIALISERS: dict[str, str] = {
    "align": "tasks.embeddings.init.align",
    "avg": "tasks.embeddings.init.avg",
    "blend": "tasks.embeddings.init.blend",
    "clp": "tasks.embeddings.init.clp",
    "focus": "tasks.embeddings.init.focus",
    "mean": "tasks.embeddings.init.mean",
    "merge": "tasks.embeddings.init.merge",
    "ofa": "tasks.embeddings.init.ofa",
    "random": "tasks.embeddings.init.random",
    "sava": "tasks.embeddings.init.sava",
    "trans-tokenization": "tasks.embeddings.init.trans_tokenization",
    "vocadt": "tasks.embeddings.init.vocadt",
    "wechsel": "tasks.embeddings.init.wechsel",
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
class Tables:
    """The embedding tables of a model; float32 [rows, h] each; there may be more rows than tokens (padding).

    Attributes:
        input: input embeddings.
        head: LM head, None where it is tied to the input embeddings.
    """

    input: NDArray[np.float32]
    head: NDArray[np.float32] | None


@dataclass(frozen=True)
class Helper:
    """A helper model of the target language (SAVA, CLP).

    Attributes:
        vocabulary: its vocabulary.
        tables: its embedding tables, of its own dimension.
    """

    vocabulary: Vocabulary
    tables: Tables


@dataclass(frozen=True)
class Ingredients:
    """What an initialiser may use.

    Attributes:
        target: the new vocabulary.
        source: the old vocabulary.
        pieces: how the source tokenizer cuts a text.
        config: the mapping's configuration.
        pairs: aligned token pairs; needs "counts".
        pairs_of: the same for each source language whose mapping is merged with others, by its code.
        tokenizers: the target and the source tokenizer (transformers' fast tokenizers).
        corpus: folder of the corpus of the target language (train.parquet, column `text`); needs "corpus".
        alignment: folder of the alignment (word_pairs, source_units, target_units); needs "alignment".
        bitext: folder of the parallel text (train.parquet, columns `source`, `target`); needs "bitext".
        source_tables: loads the source model's tables, once; needs "source_model".
        helper: loads the helper model, once; needs "helper".
        files: local files from outside by name (dictionaries, word vectors).
        work: scratch folder.
    """

    target: Vocabulary
    source: Vocabulary
    pieces: SourcePieces
    config: MappingConfig
    pairs: TokenPairs | None = None
    pairs_of: Mapping[str, TokenPairs] = field(default_factory=dict)
    tokenizers: tuple[Any, Any] | None = None
    corpus: Path | None = None
    alignment: Path | None = None
    bitext: Path | None = None
    source_tables: Callable[[], Tables] | None = None
    helper: Callable[[], Helper] | None = None
    files: Mapping[str, Path] = field(default_factory=dict)
    work: Path | None = None


@dataclass(frozen=True)
class Initialiser:
    """An initialiser's declaration.

    Attributes:
        name: name in configurations.
        build: makes the mapping, or dense rows where no weighted mean of old rows gives them.
        needs: inputs beside the two tokenizers (`configs.schema.Need`), with the default parameters.
        paper: where it is defined.
    """

    name: str
    build: Callable[[Ingredients], "TokenMapping | DenseRows"]
    paper: str
    needs: tuple[str, ...] = ()


def load_initialiser(name: str) -> Initialiser:
    """The initialiser `name`; with `MappingConfig.copy_shared`, shared tokens keep their rows, whatever it makes.

    Raises:
        KeyError: no initialiser has that name.
    """
    from tasks.embeddings.kept_rows import with_kept_rows

    method = importlib.import_module(INITIALISERS[name]).METHOD
    if not isinstance(method, Initialiser) or method.name != name:
        raise TypeError(f"{INITIALISERS[name]} declares {method!r}, expected the initialiser {name!r}")

    def build(given: Ingredients) -> "TokenMapping | DenseRows":
        built = method.build(given)
        return with_kept_rows(built, given.target, given.source) if given.config.copy_shared else built

    return replace(method, build=build)
