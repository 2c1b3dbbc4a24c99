"""How often new tokens are produced, before a tokenizer is written.

Old pieces are written as one character each, so that joining them is a small BPE of its own, which `tokenizers` runs.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, models

from tasks.tokenizer.cuts import Cuts, cut, occurrences
from tasks.tokenizer.expand_spec import splits

Pieces = tuple[int, ...]
_FIRST_CODE, _SURROGATES, _SURROGATES_END = 0x100, 0xD800, 0xE000


class JoinedPieces:
    """Units of a text in old pieces, and what new tokens make of them.

    Args:
        cuts: the units cut into old pieces.
        weights: int64 [units]: how often each is there.
        candidates: the pieces of every token that may be asked about.
    """

    def __init__(self, cuts: Cuts, weights: NDArray[np.int64], candidates: Iterable[Pieces]) -> None:
        extra = np.array([piece for pieces in candidates for piece in pieces], dtype=np.int64)
        used = np.unique(np.concatenate([cuts.ids, extra]))
        points = np.arange(_FIRST_CODE, _FIRST_CODE + len(used), dtype=np.int64)
        points[points >= _SURROGATES] += _SURROGATES_END - _SURROGATES
        self._codes = np.zeros(int(used.max(initial=-1)) + 1, dtype=np.int64)
        self._codes[used] = points
        self._weights = weights
        text = self._codes[cuts.ids].astype("<u4").tobytes().decode("utf-32-le")
        ends = np.cumsum(cuts.lengths)
        bounds = zip((ends - cuts.lengths).tolist(), ends.tolist(), strict=True)
        self._strings = [text[start:end] for start, end in bounds]

    def produced(self, tokens: Sequence[Pieces]) -> list[int]:
        """How often each of `tokens` is produced when the text is joined by the merges of all, in their order."""
        words = ["".join(map(chr, self._codes[list(pieces)].tolist())) for pieces in tokens]
        alphabet = [chr(code) for code in self._codes[self._codes > 0].tolist()]
        vocabulary = {token: i for i, token in enumerate(dict.fromkeys([*alphabet, *words]))}
        merges = splits((word for word in words if len(word) > 1), set(alphabet) | set(words))
        joined = cut(Tokenizer(models.BPE(vocab=vocabulary, merges=merges)), self._strings)
        counts = occurrences(joined, self._weights, len(vocabulary))
        return [int(counts[vocabulary[word]]) for word in words]
