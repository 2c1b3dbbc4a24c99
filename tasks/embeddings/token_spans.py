"""Where the tokens of a tokenised text lie in it, and which tokens of two tokenisations lie on the same place."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.embeddings.canonical import Vocabulary


@dataclass(frozen=True)
class Spans:
    """Tokens of several texts and their places; starts and ends never fall, from text to text they only rise.

    Attributes:
        ids: int64 [tokens].
        starts: int64 [tokens], first position of each token.
        ends: int64 [tokens], position after its last.
    """

    ids: NDArray[np.int64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]


class SpanReader:
    """Places of the tokens of one tokenizer: by the bytes its tokens stand for, else by its character offsets.

    Bytes tell the tokens of one character apart and know no conventions about spaces; they hold where the tokens of a
    text spell it (the space that some tokenizers put before a text aside). Where they do not (a normaliser, an unknown
    token), the tokenizer's own offsets are taken.

    Args:
        tokenizer: transformers' fast tokenizer.
        vocabulary: its canonical vocabulary.
    """

    def __init__(self, tokenizer: Any, vocabulary: Vocabulary) -> None:
        self._backend = tokenizer.backend_tokenizer
        self._size = len(vocabulary)
        self._lengths = np.array([len(surface) for surface in vocabulary.surfaces], dtype=np.int64)
        self._surfaces = vocabulary.surfaces

    def encode(self, texts: Sequence[str]) -> list[Any]:
        """The encodings of `texts`, without special tokens."""
        encodings: list[Any] = self._backend.encode_batch(list(texts), add_special_tokens=False)
        return encodings

    def byte_spans(self, encodings: Sequence[Any], texts: Sequence[bytes]) -> list[Spans | None]:
        """The places of each text's tokens in bytes, its first byte at 1; None where the tokens do not spell the text.

        Args:
            encodings: of `texts`.
            texts: UTF-8.
        """
        lists = [encoding.ids for encoding in encodings]
        counts = np.array([len(own) for own in lists], dtype=np.int64)
        ids = np.fromiter(chain.from_iterable(lists), np.int64, int(counts.sum()))
        inside = bool(len(ids) == 0 or ids.max() < self._size)
        ends_all = np.cumsum(self._lengths[ids]) if inside else np.zeros(len(ids), dtype=np.int64)
        bounds = np.concatenate([[0], np.cumsum(counts)]).tolist()
        spans: list[Spans | None] = []
        for text, tokens, first, last in zip(texts, lists, bounds[:-1], bounds[1:], strict=True):
            own = ids[first:last]
            spelled = b"".join(map(self._surfaces.__getitem__, tokens)) if inside else b""
            if spelled not in (text, b" " + text):
                spans.append(None)
                continue
            ends = ends_all[first:last] - (ends_all[first - 1] if first else 0)
            ends = ends + 1 - (len(spelled) - len(text))
            starts = ends - self._lengths[own]
            filled = ends > starts
            spans.append(Spans(own[filled], starts[filled], ends[filled]))
        return spans

    def character_spans(self, encoding: Any) -> Spans:
        """The places of a text's tokens by the tokenizer's own offsets, in characters, those on nothing left out."""
        offsets = np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)
        filled = offsets[:, 1] > offsets[:, 0]
        ids = np.array(encoding.ids, dtype=np.int64)
        starts, ends = np.maximum.accumulate(offsets[filled], axis=0).T if filled.any() else offsets[filled].T
        return Spans(ids[filled], starts, ends)


def joined(spans: Sequence[Spans], widths: Sequence[int]) -> Spans:
    """The spans of several texts in one row, text n moved behind the `widths` of those before it."""
    shifts = np.concatenate([[0], np.cumsum(widths)])[:-1].tolist()
    empty = np.zeros(0, dtype=np.int64)
    return Spans(
        np.concatenate([empty, *(part.ids for part in spans)]),
        np.concatenate([empty, *(part.starts + shift for part, shift in zip(spans, shifts, strict=True))]),
        np.concatenate([empty, *(part.ends + shift for part, shift in zip(spans, shifts, strict=True))]),
    )


def matched(target: Spans, source: Spans, wanted: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The source tokens on the place of each target token: those inside it, else those that hold it.

    Tokens that cross (neither holds the other) do not match.

    Args:
        target: tokens of the target tokenizer.
        source: tokens of the source tokenizer on the same texts.
        wanted: bool [target tokens]: the ones asked for.

    Returns:
        (first, last) for each wanted token: its source tokens are those from `first` to before `last`; int64 each.
    """
    starts, ends = target.starts[wanted], target.ends[wanted]
    first = np.searchsorted(source.starts, starts, side="left")
    last = np.searchsorted(source.ends, ends, side="right")
    outside = last <= first
    first = np.where(outside, np.searchsorted(source.ends, ends, side="left"), first)
    last = np.where(outside, np.searchsorted(source.starts, starts, side="right"), last)
    return first, np.maximum(first, last)
