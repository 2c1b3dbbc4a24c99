"""Trans-tokenization as the published code has it (transtokenizers 0.1.4): for reproducing published numbers.

Where it departs from the paper: plain Model 1 in one direction, integer counts, plus one on every shared token, and
rows without counts filled from rows that may have been filled themselves. The published code goes through the target
vocabulary in an order that changes from run to run; here the order is that of the ids.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.embeddings.canonical import Vocabulary
from tasks.embeddings.published_counts import PublishedCounts, Table
from tasks.embeddings.token_mapping import TokenMapping
from tasks.embeddings.word_counts import WordCounts

ORIGINS = ("aligned", "identical", "special", "fallback-parts", "fallback-unknown")
_ALIGNED, _IDENTICAL, _SPECIAL, _PARTS, _UNKNOWN = range(5)
_LAST = chr(0x10FFFF)
_WORD_START_SHARE, _OTHER_SHARE = 2000, 1000

Row = tuple[NDArray[np.int64], NDArray[np.int64]]


def published_mapping(
    words: WordCounts, tokenizers: tuple[Any, Any], vocabularies: tuple[Vocabulary, Vocabulary], min_count: int
) -> TokenMapping:
    """The mapping that the published code makes of the aligner's table.

    Args:
        words: expected counts of word pairs; pruned here (p_max^4).
        tokenizers: the target and the source tokenizer (transformers' fast tokenizers).
        vocabularies: the target and the source vocabulary.
        min_count: word pairs with a smaller count, as an integer, are dropped.
    """
    target, source = vocabularies
    counts = PublishedCounts(*tokenizers)
    counts.add_words(words.pruned(), min_count)
    aligned = set(counts.table())
    counts.add_numbers()
    counts.add_identical()
    identical = set(counts.table())
    counts.add_specials()
    specials = {value for value in tokenizers[0].special_tokens_map.values() if isinstance(value, str)}
    smoothed = Smoothed(counts.table(), target.tokens)
    smoothed.fill()
    reasons: dict[str, int] = {}
    for code, tokens in ((_PARTS, smoothed.rows), (_IDENTICAL, identical), (_ALIGNED, aligned), (_SPECIAL, specials)):
        reasons.update(dict.fromkeys(tokens, code))
    origin = np.array([reasons.get(token, _UNKNOWN) for token in target.tokens], dtype=np.uint8)
    rows = _by_source_id(smoothed, target.tokens, tokenizers, counts.source_ids)
    sources, weights = (np.concatenate(column) for column in zip(*rows, strict=True))
    at = np.repeat(np.arange(len(target)), [len(ids) for ids, _ in rows])
    return TokenMapping.from_coo(at, sources, weights.astype(np.float64), (len(target), len(source)), origin, ORIGINS)


def _by_source_id(
    smoothed: "Smoothed", tokens: Sequence[str], tokenizers: tuple[Any, Any], source_ids: dict[str, int]
) -> list[Row]:
    """The row of each target token over source ids; the target's unknown token stands for those without one."""
    unknown = _unknown_id(tokenizers[1])
    place = np.array([_source_id(name, source_ids, unknown) for name in smoothed.names], dtype=np.int64)
    lost = np.array([_source_id(tokenizers[0].unk_token, source_ids, unknown)]), np.ones(1, dtype=np.int64)
    found = [smoothed.rows.get(token) for token in tokens]
    return [lost if row is None else (place[row[0]], row[1]) for row in found]


class Smoothed:
    """Fills the rows of target tokens without counts, each from the rows of tokens like it.

    A token takes from every token that begins with it, and from the greatest tokens that it contains: of each, counts
    scaled to 1000 in total, doubled for source tokens that begin with "▁", cut to integers but at least 1. Rows filled
    early are read for later ones.

    Args:
        table: counts by strings.
        tokens: the target's token strings by id.
    """

    def __init__(self, table: Table, tokens: Iterable[str]) -> None:
        number: dict[str | None, int] = {}
        self.rows: dict[str, Row] = {}
        for token, row in table.items():
            of_row = np.array([number.setdefault(name, len(number)) for name in row], dtype=np.int64)
            self.rows[token] = (of_row, np.array(list(row.values()), dtype=np.int64))
        self.names = list(number)
        starts = [name is not None and name.startswith("▁") for name in self.names]
        self._share = np.where(np.array(starts, dtype=bool), _WORD_START_SHARE, _OTHER_SHARE).astype(np.int64)
        self._tokens = [token for token in tokens if token]
        self._sorted = sorted(self._tokens)
        self._longest = max(map(len, self.rows), default=0)
        self._given: dict[str, Row] = {}

    def fill(self) -> None:
        """Fill what can be filled, in the order of the ids."""
        for token in self._tokens:
            if token in self.rows:
                continue
            donors = [*self._longer(token), *self._contained(token)]
            if not donors:
                continue
            given = [self._scaled(donor) for donor in donors]
            ids, place = np.unique(np.concatenate([row[0] for row in given]), return_inverse=True)
            amounts = np.concatenate([row[1] for row in given])
            total = np.zeros(len(ids), dtype=np.int64)
            np.add.at(total, place, amounts)
            self.rows[token] = (ids, total)
            self._longest = max(self._longest, len(token))

    def _longer(self, token: str) -> list[str]:
        """Target tokens with a row that begin with `token`."""
        start, end = bisect_left(self._sorted, token), bisect_left(self._sorted, token + _LAST)
        return [other for other in self._sorted[start:end] if other in self.rows]

    def _contained(self, token: str) -> list[str]:
        """Tokens with a row that `token` contains, without those that another of them contains."""
        length = len(token)
        parts = {
            token[start : start + size]
            for start in range(length)
            for size in range(1, min(self._longest, length - start) + 1)
        }
        found = sorted((part for part in (*parts, "") if part in self.rows), key=len, reverse=True)
        return [part for n, part in enumerate(found) if not any(part in longer for longer in found[:n])]

    def _scaled(self, donor: str) -> Row:
        """What a token with a row gives: computed once, as rows with counts never change."""
        if donor not in self._given:
            ids, counts = self.rows[donor]
            total = int(counts.sum())
            amounts = np.maximum(1, self._share[ids] * counts // total) if total > 0 else np.zeros_like(counts)
            self._given[donor] = (ids, amounts)
        return self._given[donor]


def _unknown_id(source: Any) -> int:
    """The source token that stands for what the source has not: unknown, else padding, else begin, else the first."""
    for role in ("unk", "pad", "bos"):
        found = getattr(source, f"{role}_token_id")
        if found is not None:
            return int(found)
    return 0


def _source_id(name: str | None, ids: dict[str, int], unknown: int) -> int:
    return unknown if name is None else ids.get(name, unknown)
