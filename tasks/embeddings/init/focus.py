"""FOCUS (Dobler and de Melo 2023): new tokens as sparse mixtures of the shared tokens that are used like them."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tasks.contract import InputError
from tasks.embeddings.canonical import Vocabulary
from tasks.embeddings.copied_rows import RANDOM, OwnRows, assembled, copied_rows
from tasks.embeddings.registry import Ingredients, Initialiser
from tasks.embeddings.sparse_rows import SparseRows
from tasks.embeddings.sparse_similarity import sparsemax_cosines
from tasks.embeddings.token_mapping import TokenMapping
from tasks.embeddings.tokenized_text import TokenizedText
from tasks.embeddings.word_vectors import WordVectors, read_word_vectors, train_word_vectors


def build(given: Ingredients) -> TokenMapping:
    """Special and shared tokens copied, all others sparsemax of their cosines to the shared tokens.

    The cosines are between vectors of the target's own tokens, given or trained by fastText on the corpus as the target
    tokenizer cuts it. Tokens without a vector of their own (rarer than `min_count`) stay uncovered: drawn.

    Raises:
        InputError: the vectors cannot be read or trained, or no shared token has one.
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
        InputError: no shared token has a vector, but another token has.
    """
    copied = copied_rows(target, source)
    has_vector = np.any(vectors != 0, axis=1)
    anchors = copied.rows[has_vector[copied.rows] & ~copied.special[copied.rows]]
    rows = copied.rest[has_vector[copied.rest] & ~target.special[copied.rest]]
    if len(rows) and not len(anchors):
        shared = int((~copied.special[copied.rows]).sum())
        raise InputError(
            "mapping: 'focus' mixes shared tokens, and the two tokenizers have none; take 'mean'"
            if not shared
            else f"mapping: 'focus' mixes shared tokens, and none of the {shared} tokens that both tokenizers have has "
            "a vector; give more text or a smaller min_count, or take 'mean'"
        )
    similar = sparsemax_cosines(vectors[rows], vectors[anchors])
    ids = copied.source_ids[anchors][similar.ids]
    weights = SparseRows.from_coo(similar.row_of_entry(), ids, similar.weights, len(rows))
    return assembled(copied, [OwnRows("similar", rows, weights)], len(source), RANDOM)


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
