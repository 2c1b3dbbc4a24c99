"""The published metrics, each a small function of the corpus's totals, and the table that names them.

A new metric is one function and one line of `METRICS`; a figure it needs that is not there yet is a field of `Totals`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Totals:
    """Sums over the measured text.

    Attributes:
        nll: negative log-likelihood of the scored tokens, in nats.
        sentences: texts measured.
        bytes: UTF-8 bytes of the text.
        characters: Unicode code points of the text.
        words: runs of letters, marks and digits.
        tokens: tokens of the model's own tokenizer, without special tokens.
        unscored_tokens: those of `tokens` without a loss (the tokenizer has neither BOS nor EOS to put before them).
        unknown_tokens: those of `tokens` that are the unknown token.
        native_tokens: tokens of the reference tokenizer, without special tokens.
    """

    nll: float
    sentences: int
    bytes: int
    characters: int
    words: int
    tokens: int
    unscored_tokens: int
    unknown_tokens: int
    native_tokens: int


def bits_per_byte(totals: Totals) -> float | None:
    """Bits the model needs for a byte of the text: comparable across tokenizers."""
    return _ratio(totals.nll / math.log(2), totals.bytes)


def bits_per_character(totals: Totals) -> float | None:
    """Bits the model needs for a character (code point) of the text."""
    return _ratio(totals.nll / math.log(2), totals.characters)


def perplexity_per_token(totals: Totals) -> float | None:
    """The exponential of the mean loss of a scored token; comparable between models with the same tokenizer only."""
    return _exp(_ratio(totals.nll, totals.tokens - totals.unscored_tokens))


def perplexity_per_native_token(totals: Totals) -> float | None:
    """The exponential of the total loss divided by the tokens of the reference tokenizer: comparable across tokenizers.

    Mielke 2019, "Can you compare perplexity across different segmentations?".
    """
    return _exp(_ratio(totals.nll, totals.native_tokens))


def tokens_per_word(totals: Totals) -> float | None:
    """Fertility: tokens of the model's tokenizer a word."""
    return _ratio(totals.tokens, totals.words)


def tokens_per_byte(totals: Totals) -> float | None:
    """Tokens of the model's tokenizer a UTF-8 byte."""
    return _ratio(totals.tokens, totals.bytes)


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _exp(value: float | None) -> float | None:
    try:
        return None if value is None else math.exp(value)
    except OverflowError:
        return None


@dataclass(frozen=True)
class Metric:
    """A metric: its unit and the function that gives its value, or None where it is not defined (a division by 0)."""

    unit: str
    value: Callable[[Totals], float | None]


METRICS: dict[str, Metric] = {
    "bits_per_byte": Metric("bits/byte", bits_per_byte),
    "bits_per_character": Metric("bits/character", bits_per_character),
    "bytes": Metric("bytes", lambda totals: totals.bytes),
    "characters": Metric("characters", lambda totals: totals.characters),
    "native_tokens": Metric("tokens", lambda totals: totals.native_tokens),
    "nll": Metric("nats", lambda totals: totals.nll),
    "perplexity_per_native_token": Metric("perplexity", perplexity_per_native_token),
    "perplexity_per_token": Metric("perplexity", perplexity_per_token),
    "tokens": Metric("tokens", lambda totals: totals.tokens),
    "tokens_per_byte": Metric("tokens/byte", tokens_per_byte),
    "tokens_per_word": Metric("tokens/word", tokens_per_word),
    "unknown_tokens": Metric("tokens", lambda totals: totals.unknown_tokens),
    "unscored_tokens": Metric("tokens", lambda totals: totals.unscored_tokens),
    "words": Metric("words", lambda totals: totals.words),
}


def compute(totals: Totals) -> dict[str, float]:
    """Every metric of `METRICS` that is defined for `totals`, by name, sorted by name."""
    values = {name: METRICS[name].value(totals) for name in sorted(METRICS)}
    return {name: float(value) for name, value in values.items() if value is not None}
