"""The auxiliary vocabulary of an expansion: BPE trained on the target text, cut into words as the source does it."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

SPACE = "▁"
# SentencePiece trains on text cut at spaces and where letters, digits and other signs meet; encoding is not cut so.
_WORDS = r"▁+(?=▁)|▁?[\p{L}\p{M}\u200c\u200d]+|▁?[^\p{L}\p{M}\p{N}▁\u200c\u200d]+|▁+|"
_ONE_DIGIT, _NUMBERS = r"\p{N}", r"▁?\p{N}+"
_UNIT = re.compile(f"{SPACE}*[^{SPACE}]+|{SPACE}+")
_LONGEST_PIECE = 16  # SentencePiece's max_sentencepiece_length
_ENCODED_AT_ONCE = 65_536


@dataclass(frozen=True)
class Units:
    """The distinct stretches of a text that no token crosses, in the model's own writing.

    Attributes:
        strings: the stretches, most frequent first.
        counts: int64 [units]: how often each occurs.
    """

    strings: list[str]
    counts: NDArray[np.int64]


@dataclass(frozen=True)
class Cuts:
    """Strings cut into tokens, one after the other.

    Attributes:
        ids: int64 [tokens].
        lengths: int64 [strings]: tokens of each string.
    """

    ids: NDArray[np.int64]
    lengths: NDArray[np.int64]


def count_units(tokenizer: Tokenizer, kind: str, batches: Iterable[list[str]]) -> Units:
    """The distinct stretches of the texts, as the tokenizer's own normalizer and pre-tokenizer cut them.

    SentencePiece tokenizers do not cut at spaces; there a stretch is a word with the spaces before it.
    """
    counts: Counter[str] = Counter()
    normalizer, pre_tokenizer = tokenizer.normalizer, tokenizer.pre_tokenizer
    for texts in batches:
        for text in texts:
            normal = normalizer.normalize_str(text) if normalizer else text
            stretches = [part for part, _ in pre_tokenizer.pre_tokenize_str(normal)] if pre_tokenizer else [normal]
            if kind == "sentencepiece":
                stretches = list(chain.from_iterable(map(_UNIT.findall, stretches)))
            counts.update(stretches)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return Units([unit for unit, _ in ranked], np.array([count for _, count in ranked], dtype=np.int64))


def train_auxiliary(
    tokenizer: Tokenizer, kind: str, batches: Iterable[list[str]], size: int, joins_digits: bool
) -> Tokenizer:
    """A BPE model of at most `size` tokens, trained on the texts; it cuts strings in the model's own writing.

    Args:
        tokenizer: the source tokenizer, whose normalizer and pre-tokenizer are used.
        kind: "byte-level" or "sentencepiece".
        batches: lists of texts.
        size: most tokens; fewer when no pair occurs twice.
        joins_digits: whether the source has tokens of several digits ("sentencepiece" only).
    """
    trained = Tokenizer(models.BPE())
    if tokenizer.normalizer is not None:
        trained.normalizer = tokenizer.normalizer
    words = _word_cutter(joins_digits) if kind == "sentencepiece" else None
    cutters = [part for part in (tokenizer.pre_tokenizer, words) if part is not None]
    if cutters:
        trained.pre_tokenizer = pre_tokenizers.Sequence(cutters)
    options: dict[str, Any] = (
        {"max_token_length": _LONGEST_PIECE}
        if kind == "sentencepiece"
        else {"initial_alphabet": pre_tokenizers.ByteLevel.alphabet()}
    )
    trainer = trainers.BpeTrainer(vocab_size=size, min_frequency=2, show_progress=False, special_tokens=[], **options)
    trained.train_from_iterator(batches, trainer)
    alone = Tokenizer(trained.model)
    if words is not None:
        alone.pre_tokenizer = words
    return alone


def cut(tokenizer: Tokenizer, strings: Sequence[str]) -> Cuts:
    """`strings` cut by `tokenizer`, special tokens left out."""
    ids, lengths = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for part in _slices(strings):
        found = [encoding.ids for encoding in tokenizer.encode_batch_fast(part, add_special_tokens=False)]
        ids.append(np.fromiter(chain.from_iterable(found), dtype=np.int64))
        lengths.append(np.fromiter(map(len, found), dtype=np.int64, count=len(found)))
    return Cuts(np.concatenate(ids), np.concatenate(lengths))


def occurrences(cuts: Cuts, weights: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """How often each token occurs: int64 [size], where string i is there `weights[i]` times."""
    return np.bincount(cuts.ids, np.repeat(weights, cuts.lengths), minlength=size).astype(np.int64)


def aligned_occurrences(
    cuts: Cuts,
    characters: NDArray[np.int64],
    others: Cuts,
    other_characters: NDArray[np.int64],
    weights: NDArray[np.int64],
) -> NDArray[np.int64]:
    """How often each token of `cuts` starts and ends where tokens of `others` do: int64 [size].

    Args:
        cuts: strings cut one way.
        characters: int64 [size]: characters of each token of `cuts`.
        others: the same strings cut another way.
        other_characters: int64: characters of each token of `others`.
        weights: int64 [strings]: how often each string is there.
    """
    ends = np.cumsum(characters[cuts.ids])
    bounds = np.zeros(int(ends[-1]) + 1 if len(ends) else 1, dtype=bool)
    bounds[0] = True
    bounds[np.cumsum(other_characters[others.ids])] = True
    both = bounds[ends] & bounds[ends - characters[cuts.ids]]
    return np.bincount(cuts.ids, np.repeat(weights, cuts.lengths) * both, minlength=len(characters)).astype(np.int64)


def token_characters(tokenizer: Tokenizer) -> NDArray[np.int64]:
    """Characters of each token's string, by id: int64 [largest id + 1]."""
    vocabulary = tokenizer.get_vocab()
    result = np.zeros(max(vocabulary.values(), default=-1) + 1, dtype=np.int64)
    result[list(vocabulary.values())] = [len(token) for token in vocabulary]
    return result


def _word_cutter(joins_digits: bool) -> Any:
    pattern = _WORDS + (_NUMBERS if joins_digits else _ONE_DIGIT)
    return pre_tokenizers.Split(Regex(pattern), behavior="isolated")


def _slices(strings: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(strings), _ENCODED_AT_ONCE):
        yield strings[start : start + _ENCODED_AT_ONCE]
