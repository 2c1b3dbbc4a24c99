"""OFA (Liu et al. 2024): new tokens as the old tokens nearest to them in a space of multilingual word vectors."""

import re
from pathlib import Path

import numpy as np

from configs.schema import OfaConfig
from tasks.embeddings.copied_rows import RANDOM, OwnRows, assembled, copied_rows
from tasks.embeddings.neighbour_mixture import neighbour_mixture
from tasks.embeddings.registry import Ingredients, Initialiser
from tasks.embeddings.subword_vectors import WITH_AND_WITHOUT_SPACE, Form, mean_of_words
from tasks.embeddings.token_mapping import TokenMapping
from tasks.embeddings.word_vectors import WordVectors, read_word_vectors

_LANGUAGE = re.compile(r"[a-z]{3}:(?=.)")
FORMS: tuple[Form, ...] = (
    *WITH_AND_WITHOUT_SPACE,
    lambda word: word[0].upper() + word[1:],
    lambda word: " " + word[0].upper() + word[1:],
)


def build(given: Ingredients) -> TokenMapping:
    """Special and shared tokens copied; a new token is the softmax-weighted mean of the old tokens nearest to it.

    A token of either vocabulary is the plain mean of the words, in any language, that hold it, each cut with and
    without a space before it and with and without a capital; nearness is the cosine of these means. Tokens that no word
    holds stay uncovered: drawn.

    The method's factorised tables (fewer dimensions, then continued pretraining in them) are not made: the mapping is
    applied to the whole tables. The published code also copies tokens that differ in case alone.

    Raises:
        InputError: the vectors cannot be read.
        ValueError: the tokenizers or the vectors were not given.
    """
    config = given.config.ofa or OfaConfig()
    if given.tokenizers is None or "vectors" not in given.files:
        raise ValueError("ofa needs both tokenizers and multilingual word vectors")
    found = multilingual_vectors(given.files["vectors"])
    new, old = (
        mean_of_words(len(vocabulary), tokenizer, found, FORMS)
        for vocabulary, tokenizer in zip((given.target, given.source), given.tokenizers, strict=True)
    )
    copied = copied_rows(given.target, given.source)
    rows = copied.rest[~given.target.special[copied.rest]]
    nearest = neighbour_mixture(new[rows], old, ~given.source.special, config.neighbours, config.temperature)
    return assembled(copied, [OwnRows("nearest", rows, nearest)], len(given.source), RANDOM)


def multilingual_vectors(path: Path) -> WordVectors:
    """The word vectors of a file, the words as they are written: without their language, `$` as a space.

    Raises:
        InputError: the file cannot be read.
    """
    found = read_word_vectors(path)
    words = [_LANGUAGE.sub("", word, count=1).replace("$", " ").strip() for word in found.words]
    kept = np.flatnonzero([bool(word) for word in words])
    return WordVectors([words[n] for n in kept.tolist()], found.vectors[kept], np.ones(len(kept)))


METHOD = Initialiser(name="ofa", build=build, paper="OFA, Liu et al. 2024")
