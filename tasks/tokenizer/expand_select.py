"""Which tokens an expansion adds: the most frequent candidates that can be joined from old pieces.

A candidate of n old pieces takes n - 1 merges, whose results must all be new tokens. The parts on the way are
candidates themselves where that is possible, or else bridges, which the auxiliary tokenizer lacks or never produces;
both count among the k new tokens, and like every new token they must be produced somewhere: a token all whose chains go
through parts that never stand alone is left out, and the next most frequent one comes in.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tasks.tokenizer.cuts import Cuts, occurrences
from tasks.tokenizer.expand_auxiliary import Units
from tasks.tokenizer.expand_joining import Joining
from tasks.tokenizer.expand_produced import JoinedPieces, Pieces

_ROUNDS = 10


@dataclass(frozen=True)
class Candidate:
    """A token that may be added.

    Attributes:
        token: in the model's own writing.
        pieces: the old pieces that it stands for (new characters are pieces of their own).
        count: how often it can be had: the auxiliary tokenizer's occurrences at boundaries of old pieces, or how often
            the pieces of a bridge stand together.
        bridge: whether the auxiliary tokenizer lacks it or never produces it.
    """

    token: str
    pieces: Pieces
    count: int
    bridge: bool = False


@dataclass(frozen=True)
class Selection:
    """The tokens chosen, in the order of their ids and merges.

    Attributes:
        tokens: parts before wholes, otherwise the most frequent first.
        passed_over: more frequent candidates left out, since they or a part they need would never be produced,
            or since there was no room left for their parts.
        bridges: tokens that the auxiliary tokenizer lacks or never produces, needed as parts of others.
    """

    tokens: list[str]
    passed_over: list[str] = field(default_factory=list)
    bridges: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Supply:
    """What a chain of merges may go through.

    Attributes:
        candidates: by their pieces, most frequent first.
        new_pieces: pieces that are new characters, which need a token of their own.
        bridge: the part that the candidates lack for some pieces; None where an old token has its string.
    """

    candidates: Mapping[Pieces, Candidate]
    new_pieces: frozenset[int]
    bridge: Callable[[Pieces], Candidate | None]

    def without(self, refused: set[Pieces]) -> "Supply":
        """The same without the `refused` parts."""
        kept = {pieces: candidate for pieces, candidate in self.candidates.items() if pieces not in refused}
        return Supply(kept, self.new_pieces, lambda pieces: None if pieces in refused else self.bridge(pieces))

    def part(self, pieces: Pieces) -> Candidate | None:
        """The candidate or the bridge of these pieces; None when there is neither."""
        return self.candidates.get(pieces) or self.bridge(pieces)


def select(supply: Supply, size: int, units: Units, cuts: Cuts) -> Selection:
    """The `size` most frequent candidates that encoding the units really produces, with the parts they need.

    A candidate is passed over when no chain of merges makes it without using up a new token: each new token must still
    stand somewhere by itself. (That is reckoned while choosing, and then counted on the joined text; what the
    reckoning missed is refused and the choice made again.)

    Args:
        supply: candidates and bridges.
        size: tokens wanted.
        units: the distinct stretches of the text.
        cuts: the units cut into old pieces.

    Returns:
        At most `size` tokens; fewer when there are no more candidates.
    """
    joined = JoinedPieces(cuts, units.counts, supply.candidates)
    refused: set[Pieces] = set()
    for _ in range(_ROUNDS):
        chosen, passed_over = _Choice(supply.without(refused), units, cuts).choose(size)
        counts = joined.produced([part.pieces for part in chosen])
        unused = {part.pieces for part, count in zip(chosen, counts, strict=True) if not count}
        if not unused:
            break
        refused |= unused
    return Selection(
        tokens=[part.token for part in chosen],
        passed_over=[candidate.token for candidate in passed_over],
        bridges=[part.token for part in chosen if part.bridge],
    )


@dataclass(frozen=True)
class _Way:
    """A way to come by a span.

    Attributes:
        parts: the tokens to add, wholes last.
        halves: for each of them, where its span is halved: (start, width, width of the left half).
        bridges: how many of the parts are bridges.
        rarest: how often the rarest part occurs.
        spare: how often the span occurs if it must not be used up; None for an old piece, which may.
    """

    parts: tuple[Candidate, ...] = ()
    halves: tuple[tuple[int, int, int], ...] = ()
    bridges: int = 0
    rarest: int = 1 << 62
    spare: int | None = None

    def __add__(self, other: "_Way") -> "_Way":
        return _Way(
            self.parts + other.parts,
            self.halves + other.halves,
            self.bridges + other.bridges,
            min(self.rarest, other.rarest),
        )

    @property
    def cost(self) -> tuple[int, int, int]:
        """Least is best: few parts, then few bridges, then frequent parts."""
        return len(self.parts), self.bridges, -self.rarest


class _Choice:
    """Tokens chosen so far, and the text as they join it.

    `ranks` holds the tokens by their pieces, in the order of their merges; `symbols` their symbols in `joining`.
    """

    def __init__(self, supply: Supply, units: Units, cuts: Cuts) -> None:
        ids, ends = cuts.ids.tolist(), np.cumsum(cuts.lengths).tolist()
        starts = [0, *ends[:-1]]
        pieces = 1 + max((max(pieces) for pieces in supply.candidates), default=0)
        pieces = max(pieces, 1 + int(cuts.ids.max(initial=0)))
        lists = [ids[start:end] for start, end in zip(starts, ends, strict=True)]
        self.joining = Joining(lists, units.counts.tolist(), pieces)
        self.supply = supply
        self.ranks: dict[Pieces, int] = {}
        self.symbols: dict[Pieces, int] = {}
        self.chosen: list[Candidate] = []

    def choose(self, size: int) -> tuple[list[Candidate], list[Candidate]]:
        """Candidates in their order with the parts they need, while there is room; those passed over."""
        passed_over: list[Candidate] = []
        for candidate in self.supply.candidates.values():
            if len(self.chosen) == size:
                break
            if candidate.pieces in self.ranks:
                continue
            spans = _joined(candidate.pieces, self.ranks)
            way = self._way(spans, size - len(self.chosen))
            if way is None:
                passed_over.append(candidate)
            elif len(self.chosen) + len(way.parts) <= size:
                self._add(spans, way)
        return self.chosen, passed_over

    def _symbol(self, span: Pieces) -> int:
        return span[0] if len(span) == 1 else self.symbols[span]

    def _way(self, spans: list[Pieces], room: int) -> _Way | None:
        """The cheapest way to join all `spans`, which the tokens chosen so far leave apart; None when there is none.

        Tokens chosen so far have the better ranks and join first, so a chain from their result is never disturbed.
        """
        symbols = [self._symbol(span) for span in spans]
        known: dict[tuple[int, int], _Way] = {}
        for width in range(1, len(spans) + 1):
            for start in range(len(spans) - width + 1):
                way = self._way_to(spans, symbols, start, width, known)
                if way is not None and len(way.parts) <= room:
                    known[start, width] = way
        return known.get((0, len(spans)))

    def _way_to(
        self,
        spans: list[Pieces],
        symbols: list[int],
        start: int,
        width: int,
        known: Mapping[tuple[int, int], _Way],
    ) -> _Way | None:
        span = spans[start] if width == 1 else sum(spans[start : start + width], ())
        if width == 1 and (len(span) > 1 or span[0] not in self.supply.new_pieces):
            return _Way(spare=self.joining.count(symbols[start : start + 1]) if len(span) > 1 else None)
        count = self.joining.count(symbols[start : start + width])
        if span in self.ranks and width == 1:
            return _Way(spare=count)
        part = self.supply.part(span) if count else None
        if part is None:
            return None
        if width == 1:
            return _Way((part,), ((start, 1, 0),), part.bridge, part.count, count)
        below = min(self._halved(symbols, start, width, count, known), key=lambda way: way.cost, default=None)
        if below is None:
            return None
        split = below.halves[-1]
        whole = _Way(below.parts, below.halves[:-1], below.bridges, below.rarest)
        whole = whole + _Way((part,), (split,), part.bridge, part.count)
        return _Way(whole.parts, whole.halves, whole.bridges, whole.rarest, count)

    def _halved(
        self, symbols: list[int], start: int, width: int, count: int, known: Mapping[tuple[int, int], _Way]
    ) -> Iterator[_Way]:
        """The ways to both halves, for every place to halve a span, if neither new token is used up by the whole."""
        for left_width in range(1, width):
            left, right = known.get((start, left_width)), known.get((start + left_width, width - left_width))
            if left is None or right is None:
                continue
            twice = 1 + (symbols[start : start + left_width] == symbols[start + left_width : start + width])
            if all(half.spare is None or half.spare > twice * count for half in (left, right)):
                both = left + right
                halves = (*both.halves, (start, width, left_width))
                yield _Way(both.parts, halves, both.bridges, both.rarest)

    def _add(self, spans: list[Pieces], way: _Way) -> None:
        for part, (start, width, left_width) in zip(way.parts, way.halves, strict=True):
            if part.pieces in self.ranks:  # the same part twice in one token
                continue
            if width > 1:
                left = sum(spans[start : start + left_width], ())
                right = sum(spans[start + left_width : start + width], ())
                self.symbols[part.pieces] = self.joining.join(self._symbol(left), self._symbol(right))
            self.ranks[part.pieces] = len(self.chosen)
            self.chosen.append(part)


def _joined(pieces: Pieces, ranks: Mapping[Pieces, int]) -> list[Pieces]:
    """`pieces` joined by the merges of the tokens in `ranks`, the best rank first, then the leftmost."""
    spans: list[Pieces] = [(piece,) for piece in pieces]
    while len(spans) > 1:
        best = min(range(len(spans) - 1), key=lambda i: ranks.get(spans[i] + spans[i + 1], len(ranks)))
        if spans[best] + spans[best + 1] not in ranks:
            break
        spans[best : best + 2] = [spans[best] + spans[best + 1]]
    return spans


def bridges(
    cuts: Cuts, weights: NDArray[np.int64], strings: Sequence[str], old: Set[str]
) -> Callable[[Pieces], Candidate | None]:
    """The bridge of any pieces, where its string is no token of `old`.

    Args:
        cuts: units cut into old pieces.
        weights: int64 [units]: how often each is there.
        strings: the string of each piece.
        old: all tokens of the source.
    """
    within = np.ones(len(cuts.ids), dtype=bool)
    within[np.cumsum(cuts.lengths)[:-1]] = False
    firsts, seconds = cuts.ids[:-1][within[1:]], cuts.ids[1:][within[1:]]
    pairs, inverse = np.unique(firsts * len(strings) + seconds, return_inverse=True)
    totals = np.bincount(inverse, np.repeat(weights, cuts.lengths)[1:][within[1:]]).astype(np.int64)
    alone = occurrences(cuts, weights, len(strings))
    together = dict(zip(pairs.tolist(), totals.tolist(), strict=True))

    def bridge(pieces: Pieces) -> Candidate | None:
        token = "".join(strings[piece] for piece in pieces)
        if token in old:
            return None
        pairs_inside = [together.get(a * len(strings) + b, 0) for a, b in pairwise(pieces)]
        count = min(pairs_inside, default=int(alone[pieces[0]]))
        return Candidate(token, pieces, count, bridge=True)

    return bridge
