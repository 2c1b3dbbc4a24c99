"""The table of integer counts that the published trans-tokenization code makes (transtokenizers 0.1.4)."""

from collections import defaultdict
from math import gcd
from typing import Any

from tasks.embeddings.word_counts import JOINT, WordCounts

Table = dict[str, dict[str | None, int]]
SPECIAL_COUNT = 1_000_000_000
_NUMBERS = [*(str(i) for i in range(9999)), *(f"0{i}" for i in range(99))]
# A special token of the target's, and the source's that takes its place: the same role, else this one, else unknown.
_ROLES = {"pad": None, "unk": None, "bos": "cls", "eos": "sep", "cls": "bos", "sep": "eos", "mask": "pad"}


class PublishedCounts:
    """Counts by target token string and source token string, filled in the published order.

    Args:
        target: the target tokenizer (transformers' fast tokenizer).
        source: the source tokenizer.
    """

    def __init__(self, target: Any, source: Any) -> None:
        self.target, self.source = target, source
        self.target_ids: dict[str, int] = target.get_vocab()
        self.source_ids: dict[str, int] = source.get_vocab()
        self._table: defaultdict[str, defaultdict[str | None, int]] = defaultdict(lambda: defaultdict(int))

    def table(self) -> Table:
        """The counts: {target token: {source token: count}}."""
        return {token: dict(row) for token, row in self._table.items()}

    def add_words(self, words: WordCounts, min_count: int) -> None:
        """Counts of aligned words: integers, under `min_count` dropped, halved between two rules and cut again."""
        for one, two, value in zip(words.source, words.target, words.counts.tolist(), strict=True):
            count = int(value)
            if count < min_count:
                continue
            if two in self.target_ids and one in self.source_ids:
                self._table[two][one] += count
                continue
            half = max(1, count // 2)
            old, new = one.split(JOINT), two.split(JOINT)
            for token in new:
                for piece in old:
                    self._table[token][piece] += max(1, half // len(old))
            common = gcd(len(old), len(new))
            repeat_old, repeat_new = len(new) // common, len(old) // common
            for step in range(len(old) * repeat_old):
                self._table[new[step // repeat_new]][old[step // repeat_old]] += max(1, half // repeat_new)

    def add_numbers(self) -> None:
        """Plus one for numbers, on the source's token or the first one of its pieces."""
        cut = {lead: (_first_tokens(self.target, lead), _first_tokens(self.source, lead)) for lead in ("", " ")}
        for n, number in enumerate(_NUMBERS):
            first = cut[""][1][n][0]
            if number in self.target_ids:
                self._table[number][number if number in self.source_ids else first] += 1
            for lead in ("", " "):
                (token, count), (piece, _) = cut[lead][0][n], cut[lead][1][n]
                if count == 1:
                    self._table[str(token)][piece] += 1

    def add_identical(self) -> None:
        """Plus one for every target token that the source has too, after exchanging the marks of word starts."""
        new, old = _prefixes(self.target), _prefixes(self.source)
        for token in sorted(self.target_ids, key=self.target_ids.__getitem__):
            text = token
            for mine, theirs in zip(new, old, strict=True):
                if mine or theirs:
                    text = text.replace(mine, theirs)
            if text in self.source_ids:
                self._table[token][text] += 1

    def add_specials(self) -> None:
        """A count above all others for special tokens, on the source's of the same role, a stand-in or its unknown."""
        for role, other in _ROLES.items():
            token = getattr(self.target, f"{role}_token")
            if token is None:
                continue
            names = [f"{role}_token"] if other is None else [f"{role}_token", f"{other}_token"]
            found = [getattr(self.source, name) for name in names]
            chosen = next((name for name in found if name is not None and name in self.source_ids), None)
            self._table[token][chosen if chosen is not None else self.source.unk_token] += SPECIAL_COUNT


def _first_tokens(tokenizer: Any, lead: str) -> list[tuple[str | None, int]]:
    """The first token of each number, and how many there are."""
    encodings = tokenizer.backend_tokenizer.encode_batch([lead + text for text in _NUMBERS], add_special_tokens=False)
    return [(encoding.tokens[0] if encoding.tokens else None, len(encoding.tokens)) for encoding in encodings]


def _prefixes(tokenizer: Any) -> tuple[str, str]:
    """How the tokenizer marks the first and the second token of a word, found by trying."""

    def cut(text: str) -> list[str]:
        tokens: list[str] = tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).tokens
        return tokens

    word, run = cut(" a"), cut("a" * 22)
    return (word[0] if word else "").rstrip("a"), (run[1] if len(run) > 1 else "").rstrip("a")
