"""The auxiliary vocabulary of an expansion: BPE trained on the target text, cut into words as the source does it."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

from tasks.tokenizer.sentencepiece_training import SPACE

# SentencePiece trains on text cut at spaces and where letters, digits and other signs meet; encoding is not cut so.
_WORDS = r"▁+(?=▁)|▁?[\p{L}\p{M}\u200c\u200d]+|▁?[^\p{L}\p{M}\p{N}▁\u200c\u200d]+|▁+|"
_ONE_DIGIT, _NUMBERS = r"\p{N}", r"▁?\p{N}+"
_UNIT = re.compile(f"{SPACE}*[^{SPACE}]+|{SPACE}+")
_LONGEST_PIECE = 16  # SentencePiece's max_sentencepiece_length


@dataclass(frozen=True)
class Units:
    """The distinct stretches of a text that no token crosses, in the model's own writing.

    Attributes:
        strings: the stretches, most frequent first.
        counts: int64 [units]: how often each occurs.
    """

    strings: list[str]
    counts: NDArray[np.int64]


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


def _word_cutter(joins_digits: bool) -> Any:
    pattern = _WORDS + (_NUMBERS if joins_digits else _ONE_DIGIT)
    return pre_tokenizers.Split(Regex(pattern), behavior="isolated")
