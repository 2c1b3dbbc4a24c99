"""The state of one stream of sentences, and the pieces that sentences are made of."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from tasks.sample import english, esperanto
from tasks.sample.lexicon import Expression, Lexicon

Token = tuple[str, int]
"""A word with its link group: words of the two sides in the same group are aligned; group 0 is aligned with nothing."""

MARKS = frozenset(",.?!")


class SentencePair(NamedTuple):
    """A sentence in both languages.

    Attributes:
        source: English.
        target: Esperanto.
        alignment: links (English word, Esperanto word), counted from 0 over `split_words`, sorted.
    """

    source: str
    target: str
    alignment: tuple[tuple[int, int], ...]


@dataclass(slots=True)
class Phrase:
    """Words of a constituent in both languages, each side in its own order."""

    en: list[Token]
    eo: list[Token]

    def __add__(self, other: "Phrase") -> "Phrase":
        return Phrase(self.en + other.en, self.eo + other.eo)


EMPTY = Phrase([], [])


@dataclass(frozen=True, slots=True)
class Features:
    """What a verb agrees with and a pronoun refers to; gender '' is a person of unknown gender, 'n' a thing."""

    person: int
    plural: bool
    gender: str


class Draft:
    """Random numbers, link groups and words from the lexicon."""

    def __init__(self, lexicon: Lexicon, seed: int) -> None:
        self.lexicon = lexicon
        self.random = random.Random(seed).random
        self._group = 0

    def group(self) -> int:
        """A new link group."""
        self._group += 1
        return self._group

    def chance(self, probability: float) -> bool:
        """True with `probability`."""
        return self.random() < probability

    def below(self, bound: int) -> int:
        """A number from 0 to `bound` - 1, all equally likely."""
        return int(self.random() * bound)

    def word(self, kind: str, lemma: str) -> Phrase:
        """A function word of the class `kind`, both sides linked; either may be several words."""
        return self.linked(lemma, self.lexicon.functions[kind, lemma])

    def linked(self, source: str, target: str) -> Phrase:
        """Words separated by spaces, all of one link group."""
        group = self.group()
        return Phrase([(word, group) for word in source.split(" ")], [(word, group) for word in target.split(" ")])

    def expression(self, expression: Expression) -> Phrase:
        """A fixed expression with link groups of its own."""
        base = self._group
        self._group += 9
        return Phrase(
            [(word, base + group if group else 0) for word, group in expression.english],
            [(word, base + group if group else 0) for word, group in expression.esperanto],
        )

    def number(self, number: int) -> Phrase:
        """A cardinal from 1 to 999 in words; hundreds and the rest are linked apart, 'and' with nothing."""
        count, rest = divmod(number, 100)
        phrase = EMPTY
        if count:
            phrase = self.linked(f"{english.ONES[count]} hundred", esperanto.hundreds(count))
            if rest:
                phrase = phrase + Phrase([("and", 0)], [])
        if rest:
            tens, ones = divmod(rest, 10)
            word = english.ONES[rest] if rest < 20 else english.TENS[tens] + (f"-{english.ONES[ones]}" if ones else "")
            phrase = phrase + self.linked(word, " ".join(esperanto.tens_and_ones(rest)))
        return phrase

    def finish(self, phrase: Phrase, mark: str) -> SentencePair:
        """The sentence of `phrase`, closed with `mark`."""
        group = self.group()
        source = [*phrase.en, (mark, group)]
        target = _without_doubled_commas([*phrase.eo, (mark, group)])
        positions: dict[int, list[int]] = {}
        for index, (_, own) in enumerate(target):
            if own:
                positions.setdefault(own, []).append(index)
        links = tuple((i, j) for i, (_, own) in enumerate(source) if own for j in positions.get(own, ()))
        self._group = 0
        return SentencePair(_text(source), _text(target), links)


def _without_doubled_commas(tokens: Sequence[Token]) -> list[Token]:
    """`tokens` without each comma that stands before another mark."""
    kept = [
        token for token, following in pairwise(tokens)
        if token[0] != "," or following[0] not in MARKS
    ]  # fmt: skip
    return [*kept, tokens[-1]]


def _text(tokens: Sequence[Token]) -> str:
    text = "".join([form if form in MARKS else " " + form for form, _ in tokens])
    return text[1].upper() + text[2:]
