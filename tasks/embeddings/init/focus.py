"""FOCUS (Dobler and de Melo 2023): new tokens as sparse mixtures of the shared tokens that are used like them."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tasks.embeddings.canonical import Vocabulary
from tasks.embeddings.matching import NONE, identical_tokens, special_tokens
from tasks.embeddings.registry import Ingredients, Initialiser
from tasks.embeddings.sparse_similarity import sparsemax_cosines
from tasks.embeddings.token_mapping import TokenMapping
from tasks.embeddings.tokenized_text import TokenizedText
from tasks.embeddings.word_vectors import WordVectors, read_word_vectors, train_word_vectors

ORIGINS = ("random", "special", "shared", "similar")
_RANDOM, _SPECIAL, _SHARED, _SIMILAR = range(4)


def build(given: Ingredients) -> TokenMapping:
    """Special and shared tokens copied, all others sparsemax of their cosines to the shared tokens.

    The cosines are between vectors of the target's own tokens, given or trained by fastText on the corpus as the target
    tokenizer cuts it. Tokens without a vector of their own (rarer than `min_count`) stay uncovered: drawn.

    Raises:
        InputError: the vectors cannot be read or trained.
        ValueError: no shared token has a vector.
    """
    found = vectors_of(given.target.tokens, _vectors(given))
    return focus_mapping(found, given.target, given.source)


def focus_mapping(vectors: NDArray[np.float32], target: Vocabulary, source: Vocabulary) -> TokenMapping:
    """The mapping that the tokens' vectors make.

    Args:
        vectors: float32 [target size, d]; a row of zeros where a token has none.
        target: the new vocabulary.
        source: the old vocabulary.

    Raises:
        ValueError: no shared token has a vector, but another token has.
    """
    specials, shared = special_tokens(target, source), identical_tokens(target, source)
    one = np.where(specials != NONE, specials, shared)
    has_vector = np.any(vectors != 0, axis=1)
    anchors = np.flatnonzero((shared != NONE) & has_vector)
    rows = np.flatnonzero((one == NONE) & has_vector & ~target.special)
    origin = np.full(len(target), _RANDOM, dtype=np.uint8)
    origin[shared != NONE] = _SHARED
    origin[specials != NONE] = _SPECIAL
    origin[rows] = _SIMILAR
    single = np.flatnonzero(one != NONE)
    ids, sources, weights = single, one[single], np.ones(len(single))
    if len(rows):
        similar = sparsemax_cosines(vectors[rows], vectors[anchors])
        ids = np.concatenate([ids, rows[similar.row_of_entry()]])
        sources = np.concatenate([sources, shared[anchors][similar.ids]])
        weights = np.concatenate([weights, similar.weights])
    return TokenMapping.from_coo(ids, sources, weights, (len(target), len(source)), origin, ORIGINS)


def vectors_of(tokens: Sequence[str], found: WordVectors) -> NDArray[np.float32]:
    """The vectors of those tokens that are words of `found`; float32 [tokens, d], zeros elsewhere."""
    place = {word: n for n, word in enumerate(found.words)}
    result = np.zeros((len(tokens), found.vectors.shape[1]), dtype=np.float32)
    pairs = [(i, place[token]) for i, token in enumerate(tokens) if token in place]
    if pairs:
        rows, words = np.array(pairs).T
        result[rows] = found.vectors[words]
    return result


def _vectors(given: Ingredients) -> WordVectors:
    focus = given.config.focus
    if focus is None:
        raise ValueError("focus needs its section in the configuration")
    if "vectors" in given.files:
        return read_word_vectors(given.files["vectors"])
    if given.corpus is None or given.tokenizers is None:
        raise ValueError("focus needs a corpus and the target tokenizer, or vectors")
    with tempfile.TemporaryDirectory(dir=given.work) as folder:
        text = TokenizedText(given.corpus / "train.parquet", "text", given.tokenizers[0], Path(folder))
        return train_word_vectors(text, focus.fasttext, given.config.seed)


METHOD = Initialiser(
    name="focus",
    build=build,
    paper="Dobler and de Melo 2023; as used in low-resource vocabulary expansion 2024",
    needs=("corpus",),
)
