"""WECHSEL (Minixhofer et al. 2022): new tokens as the old tokens nearest to them among words of both languages."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from configs.schema import WechselConfig
from tasks.contract import InputError
from tasks.embeddings.bilingual_dictionary import dictionary_of_alignment, read_dictionary
from tasks.embeddings.canonical import Vocabulary
from tasks.embeddings.copied_rows import RANDOM, OwnRows, assembled, copied_rows
from tasks.embeddings.neighbour_mixture import neighbour_mixture
from tasks.embeddings.registry import Ingredients, Initialiser
from tasks.embeddings.subword_vectors import subword_vectors
from tasks.embeddings.token_mapping import TokenMapping
from tasks.embeddings.tokenized_text import WordText
from tasks.embeddings.word_vectors import WordVectors, read_word_vectors, train_word_vectors


def build(given: Ingredients) -> TokenMapping:
    """Each token the softmax-weighted mean of the old tokens nearest to it.

    Word vectors of the source language are turned (Procrustes) so that the words of a bilingual dictionary fall on
    their translations; the vector of a token comes from these word vectors. Shared tokens are estimated like all
    others; one without a vector is copied. Special tokens are mapped one to one; what is left is drawn.

    Raises:
        InputError: the dictionary or vectors cannot be read or made, no entry of the dictionary has vectors on both
            sides, or the two sides' vectors have different dimensions.
    """
    config = given.config.wechsel
    if config is None or given.tokenizers is None:
        raise ValueError("wechsel needs its section in the configuration, and both tokenizers")
    source, target = _vectors(given, config, "source"), _vectors(given, config, "target")
    turn = procrustes(*dictionary_vectors(_dictionary(given, config), source, target))
    spelled = config.subwords == "ngrams"
    old = subword_vectors(given.source, given.tokenizers[1], source, spelled) @ turn
    new = subword_vectors(given.target, given.tokenizers[0], target, spelled)
    return wechsel_mapping(new, old, (given.target, given.source), config)


def wechsel_mapping(
    new: NDArray[np.float32],
    old: NDArray[np.float32],
    vocabularies: tuple[Vocabulary, Vocabulary],
    config: WechselConfig,
) -> TokenMapping:
    """The mapping that the tokens' vectors make: softmax(cosine / temperature) over the nearest old tokens.

    Args:
        new: float32 [target size, d]; a row of zeros where a token has no vector.
        old: float32 [source size, d], in the space of `new`.
        vocabularies: the new and the old vocabulary.
        config: neighbours and temperature.
    """
    target, source = vocabularies
    rows = np.flatnonzero(np.any(new != 0, axis=1) & ~target.special)
    nearest = neighbour_mixture(new[rows], old, ~source.special, config.neighbours, config.temperature)
    estimated = np.zeros(len(target), dtype=bool)
    estimated[rows] = nearest.counts() > 0
    copied = copied_rows(target, source).without_shared(estimated)
    return assembled(copied, [OwnRows("nearest", rows, nearest)], len(source), RANDOM)


def procrustes(source: NDArray[np.float32], target: NDArray[np.float32]) -> NDArray[np.float32]:
    """The rotation (or reflection) R that brings source @ R nearest to target: U V', where source' target = U S V'.

    Args:
        source: float32 [pairs, d].
        target: float32 [pairs, d].

    Returns:
        float32 [d, d], orthogonal.

    Raises:
        InputError: there is no pair, or the two sides have different dimensions.
    """
    if not len(source):
        raise InputError(
            "mapping: 'wechsel': no entry of the dictionary has word vectors on both sides; give a dictionary and "
            "vectors of the same two languages, or more text"
        )
    if source.shape != target.shape:
        raise InputError(
            f"mapping: 'wechsel': word vectors of the two languages differ in dimension, {source.shape[1]} and "
            f"{target.shape[1]}; give vectors of one dimension"
        )
    left, _, right = np.linalg.svd(source.astype(np.float64).T @ target.astype(np.float64))
    return np.asarray(left @ right, dtype=np.float32)


def dictionary_vectors(
    entries: Sequence[tuple[str, str]], source: WordVectors, target: WordVectors
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The vectors of the two sides of each entry; of all its spellings (as is, lower, title case) that have vectors.

    A pair of spellings counts once for an entry, and each time another entry has it.
    """
    places = [{word: n for n, word in enumerate(side.words)} for side in (source, target)]
    pairs = [
        (places[0][one], places[1][two])
        for entry in entries
        for one in dict.fromkeys((entry[0], entry[0].lower(), entry[0].title()))
        for two in dict.fromkeys((entry[1], entry[1].lower(), entry[1].title()))
        if one in places[0] and two in places[1]
    ]
    chosen = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return source.vectors[chosen[:, 0]], target.vectors[chosen[:, 1]]


def _dictionary(given: Ingredients, config: WechselConfig) -> list[tuple[str, str]]:
    if "dictionary" in given.files:
        return read_dictionary(given.files["dictionary"])
    if given.alignment is None:
        raise ValueError("wechsel needs a dictionary, or an alignment to derive one from")
    return dictionary_of_alignment(given.alignment, config.min_count)


def _vectors(given: Ingredients, config: WechselConfig, side: str) -> WordVectors:
    if f"{side}_vectors" in given.files:
        return read_word_vectors(given.files[f"{side}_vectors"])
    folder, column = (given.bitext, "source") if side == "source" else (given.corpus, "text")
    if folder is None:
        raise ValueError(f"wechsel needs vectors of the {side} language's words, or text to train them on")
    text: Any = WordText(folder / "train.parquet", column)
    return train_word_vectors(text, config.fasttext, given.config.seed)


METHOD = Initialiser(
    name="wechsel", build=build, paper="Minixhofer et al. 2022", needs=("corpus", "bitext", "alignment")
)
