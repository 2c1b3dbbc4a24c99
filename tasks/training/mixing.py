"""Several texts mixed in fixed shares: which text and which row every draw takes is known from its number alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tasks.contract import InputError
from tasks.training.order import Passes
from tasks.training.packed_batch import Batch, concatenate
from tasks.training.packing import TextRows


def temperature_shares(
    sizes: Mapping[str, float], temperature: float, fixed: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Shares of texts by temperature sampling: p_i = (1 - Σ fixed) · n_i^(1/T) / Σ_j n_j^(1/T), over texts not fixed.

    T = 1 keeps the proportions, a large T makes all shares equal (Devlin et al. 2019 with exponent 1/T). VocADT (Han et
    al. 2025) fixes English at 1/n of n languages: `fixed={"en": 1 / len(sizes)}`. Replay of the source language as in
    SAVA (75 % target, 25 % source): `fixed={"source": 0.25}`.

    Args:
        sizes: tokens of each text.
        temperature: T > 0.
        fixed: shares that do not depend on sizes.

    Returns:
        Shares that sum to 1, in the order of `sizes`.

    Raises:
        InputError: a fixed share is of no text in `sizes`, shares cannot sum to 1, a size or T is not above 0.
    """
    fixed = dict(fixed or {})
    unknown = sorted(set(fixed) - set(sizes))
    if unknown:
        raise InputError(f"a share is fixed for {unknown}, but the texts are {sorted(sizes)}: correct the name")
    if not temperature > 0:
        raise InputError(f"temperature is {temperature}: give a number above 0 (1 keeps the proportions)")
    empty = [name for name, size in sizes.items() if not size > 0]
    if empty:
        raise InputError(f"the texts {empty} have no tokens: leave them out of the mixture")
    rest, free = 1 - sum(fixed.values()), [name for name in sizes if name not in fixed]
    wrong = any(not share > 0 for share in fixed.values()) or (rest <= 0 if free else abs(rest) > 1e-9)
    if wrong:
        need = "below 1, for the others to have something" if free else "1, since no text is left for the rest"
        raise InputError(f"the fixed shares are {fixed}: each must be above 0 and their sum {need}")
    logs = np.log([sizes[name] for name in free]) / temperature
    weights = np.exp(logs - logs.max()) if free else logs
    shares = fixed | dict(zip(free, (rest * weights / weights.sum()).tolist(), strict=True))
    return {name: shares[name] for name in sizes}


@dataclass(frozen=True)
class Draws:
    """Consecutive draws.

    Attributes:
        texts: [draws] int64, number of the text that each takes.
        rows: [draws] int64, the row of that text.
    """

    texts: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]


class Mixture:
    """Which text and which row each draw takes: a pure function of the draw's number.

    Draws are spaced evenly: draw number j of a text with share p has the time (j + u) / p, with u in (0, 1) from the
    seed, and draws go by time. Among the first N draws of k texts the count of each so differs from p·N by at most
    1 + p·k (by chance it would be by the root of N), and text and row of draw 10^9 need no history. Every text is
    passed through in an order of its own; no row comes twice before all have come.

    Args:
        rows: rows of each text.
        shares: of the draws, above 0; scaled to sum to 1.
        seed: of the spacing and the orders.
    """

    def __init__(self, rows: Sequence[int], shares: Sequence[float], seed: int) -> None:
        if len(rows) != len(shares) or not rows or min(rows) < 1 or not min(shares) > 0:
            raise InputError(
                f"texts with {list(rows)} rows cannot be mixed in the shares {list(shares)}: "
                "each text needs at least one row and a share above 0"
            )
        self._rates = np.asarray(shares, dtype=np.float64) / np.sum(shares)
        generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy=seed, spawn_key=(0, 0))))
        self._phases = generator.uniform(size=len(rows))
        self._passes = [Passes(count, seed, text) for text, count in enumerate(rows)]

    def draws(self, first: int, count: int) -> Draws:
        """The draws `first`…`first + count - 1`, counted from 0."""
        texts, numbers, before = self._by_time(first, count)
        texts, numbers = texts[first - before :][:count], numbers[first - before :][:count]
        rows = np.empty(count, dtype=np.int64)
        for text, passes in enumerate(self._passes):
            here = texts == text
            if here.any():
                rows[here] = passes.at(numbers[here])
        return Draws(texts, rows)

    def counts(self, draws: int) -> npt.NDArray[np.int64]:
        """How many of the first `draws` draws take each text: [texts] int64."""
        texts, _, before = self._by_time(draws, 0)
        counts = self._skipped(draws)
        counts += np.bincount(texts[: draws - before], minlength=len(counts))
        return counts

    def rows_drawn(self, text: int, draws: int) -> tuple[int, npt.NDArray[np.int64]]:
        """Whole passes over `text` in the first `draws` draws, and the rows drawn in the pass begun ([n] int64)."""
        passes = self._passes[text]
        whole, rest = divmod(int(self.counts(draws)[text]), passes.sequences)
        return whole, passes.at(whole * passes.sequences + np.arange(rest))

    def _skipped(self, first: int) -> npt.NDArray[np.int64]:
        """For each text a number of draws that are surely among the first `first` of all, and nearly all of them.

        Before the time `first` - texts there are less than `first` draws; two draws of a text less make sure of that
        in spite of rounding.
        """
        surely: npt.NDArray[np.int64] = np.floor(self._rates * (first - len(self._rates))).astype(np.int64) - 2
        return surely.clip(min=0)

    def _by_time(self, first: int, count: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int]:
        """Text and number within the text of draws in order of time, from some draw on; and the number of that draw.

        The part from draw `first` to draw `first + count` is right.
        """
        skipped = self._skipped(first)
        last = np.ceil(self._rates * (first + count + len(self._rates))).astype(np.int64) + 2
        texts = np.repeat(np.arange(len(skipped)), last - skipped)
        starts = np.cumsum(last - skipped) - (last - skipped)
        numbers = np.arange(len(texts)) - starts[texts] + skipped[texts]
        order = np.argsort((numbers + self._phases[texts]) / self._rates[texts], kind="stable")
        return texts[order], numbers[order], int(skipped.sum())


@dataclass(frozen=True)
class TextShare:
    """What one text gave to a training.

    Attributes:
        name: of the text.
        wanted: its share of the tokens, as configured.
        share: its share of the tokens seen.
        tokens: tokens seen of it, without padding.
        passes: how often it was passed through.
    """

    name: str
    wanted: float
    share: float
    tokens: int
    passes: float


class MixedText:
    """Several texts in rows of one length, drawn in fixed shares of tokens.

    Args:
        texts: the texts by name.
        shares: share of the tokens of each.
        seed: of the draws.

    Raises:
        InputError: names, row lengths or shares do not go together.
    """

    def __init__(self, texts: Mapping[str, TextRows], shares: Mapping[str, float], seed: int) -> None:
        if set(texts) != set(shares) or not texts:
            raise InputError(f"there are texts {sorted(texts)} and shares of {sorted(shares)}: one share for each text")
        lengths = {name: text.length for name, text in texts.items()}
        if len(set(lengths.values())) > 1:
            raise InputError(f"the texts have rows of different lengths ({lengths}): pack them with one length")
        self._names, self._texts = tuple(texts), tuple(texts.values())
        total = sum(shares.values())
        self._shares = [shares[name] / total for name in self._names]
        tokens_per_row = [text.tokens_in_rows / len(text) for text in self._texts]
        rates = [share / tokens for share, tokens in zip(self._shares, tokens_per_row, strict=True)]
        self.mixture = Mixture([len(text) for text in self._texts], rates, seed)

    def read(self, first: int, count: int) -> Batch:
        """The rows of the draws `first`…`first + count - 1`, in that order."""
        draws = self.mixture.draws(first, count)
        numbers = np.unique(draws.texts)
        batches = [self._texts[number].read(draws.rows[draws.texts == number]) for number in numbers]
        order = np.empty(count, dtype=np.int64)
        order[np.argsort(draws.texts, kind="stable")] = np.arange(count)
        return concatenate(batches, order)

    def seen(self, draws: int) -> list[TextShare]:
        """What each text gave to the first `draws` draws."""
        counts = self.mixture.counts(draws).tolist()
        tokens = [self._tokens(number, draws) for number in range(len(self._texts))]
        total = max(1, sum(tokens))
        return [
            TextShare(name, wanted, seen / total, seen, count / len(text))
            for name, wanted, seen, count, text in zip(
                self._names, self._shares, tokens, counts, self._texts, strict=True
            )
        ]

    def _tokens(self, number: int, draws: int) -> int:
        whole, rows = self.mixture.rows_drawn(number, draws)
        text = self._texts[number]
        return whole * text.tokens_in_rows + int(text.filled(rows).sum())
