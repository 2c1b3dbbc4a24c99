"""Tables that show a person what an alignment has found: the most frequent word pairs, and every word of both sides.

Everything is computed from the counts of word pairs summed over the corpora, without thresholds. Words are units: one
spelling may stand in several rows where it was tokenised in several ways.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from storage.tables import TableWriter
from tasks.alignment.bitext import Bitext
from tasks.alignment.compiled import compiled
from tasks.alignment.links import Int32, Int64, Links, parts
from tasks.alignment.sums import Float64
from tasks.alignment.word_pairs import merged_word_pairs

TOP_PAIRS = 100_000  # rows of top_pairs.parquet at most
WRITTEN_ROWS = 2**17
_FIGURES = ("count", "reverse_count", "p_target_given_source", "p_source_given_target", "dice")
_TOP_PAIRS = pa.schema([("source", pa.string()), ("target", pa.string()), *((name, pa.float64()) for name in _FIGURES)])
_WORDS = pa.schema(
    [
        ("text", pa.string()),
        ("frequency", pa.int64()),
        ("linked", pa.int64()),
        ("unlinked_share", pa.float64()),
        ("partners", pa.int32()),
        ("entropy", pa.float64()),
        ("best_partner", pa.string()),
        ("best_share", pa.float64()),
    ]
)


@compiled
def _mark(links: tuple[Int64, Int32], words: tuple[Int32, Int64], marked: npt.NDArray[np.uint8], linked: Int64) -> None:
    """Add the words with a link to `linked`; `marked` uint8 [tokens], all 0 before."""
    for pair in range(len(links[0]) - 1):
        first = words[1][pair]
        for k in range(links[0][pair], links[0][pair + 1]):
            position = first + links[1][k]
            if marked[position] == 0:
                marked[position] = 1
                linked[words[0][position]] += 1


class LinkedWords:
    """How many occurrences of each word have a link, on both sides; memory is that of the vocabularies.

    Attributes:
        source: int64 [source words].
        target: int64 [target words].
    """

    def __init__(self, source_words: int, target_words: int) -> None:
        self.source = np.zeros(source_words, dtype=np.int64)
        self.target = np.zeros(target_words, dtype=np.int64)

    def add(self, units: Bitext, links: Links) -> None:
        """Count some more sentence pairs and their links (which must lie inside their sentences)."""
        sides = (
            (links.source, units.source, units.source_offsets, self.source),
            (links.target, units.target, units.target_offsets, self.target),
        )
        for positions, words, offsets, linked in sides:
            _mark((links.offsets, positions), (words, offsets), np.zeros(len(words), dtype=np.uint8), linked)


@compiled
def _gather(
    own: Int32,
    partner: Int32,
    counts: Float64,
    sums: tuple[Float64, Float64, Float64],
    found: tuple[Int32, Int32],
) -> None:
    """Add word pairs to the figures of `own`: (total, sum of c log2 c, largest), (partners, best partner)."""
    (total, logs, largest), (partners, best) = sums, found
    for row in range(len(counts)):
        word, count = own[row], counts[row]
        if count > 0:
            total[word] += count
            logs[word] += count * np.log2(count)
            partners[word] += 1
            if count > largest[word]:
                largest[word] = count
                best[word] = partner[row]


class _Side:
    """What is gathered for the words of one side, over their distribution of partners."""

    def __init__(self, words: int) -> None:
        self.total, self.logs, self.largest = np.zeros(words), np.zeros(words), np.zeros(words)
        self.partners, self.best = np.zeros(words, dtype=np.int32), np.full(words, -1, dtype=np.int32)

    def add(self, own: Int32, partner: Int32, counts: Float64) -> None:
        """Add word pairs: three arrays [R]."""
        sums, found = (self.total, self.logs, self.largest), (self.partners, self.best)
        _gather(own, partner, np.ascontiguousarray(counts), sums, found)

    def entropy(self) -> Float64:
        """Entropy of each word's partners in bits, NaN where it has none: float64 [words]."""
        with np.errstate(divide="ignore", invalid="ignore"):
            bits = np.log2(self.total) - self.logs / self.total
        return np.where(self.partners == 0, np.nan, np.where(self.partners == 1, 0.0, np.maximum(bits, 0.0)))


@dataclass
class _Top:
    """The pairs with the largest counts seen so far; of equal counts, the first seen."""

    source: Int32
    target: Int32
    counts: Float64

    def add(self, source: Int32, target: Int32, counts: Float64) -> None:
        """Add word pairs: [R], [R] and [R, 2]."""
        least = self.counts[-1, 0] if len(self.counts) == TOP_PAIRS else 0.0
        new = np.flatnonzero(counts[:, 0] > least)
        if not len(new):
            return
        self.source, self.target = np.append(self.source, source[new]), np.append(self.target, target[new])
        self.counts = np.concatenate([self.counts, counts[new]])
        order = np.argsort(-self.counts[:, 0], kind="stable")[:TOP_PAIRS]
        self.source, self.target, self.counts = self.source[order], self.target[order], self.counts[order]


def write_diagnostics(folder: Path, linked: LinkedWords) -> dict[str, float]:
    """Write top_pairs.parquet, source_words.parquet and target_words.parquet beside the tables of an alignment.

    - top_pairs: the `TOP_PAIRS` pairs with the largest `count` (target given source), largest first, with
      p_target_given_source = count / sum of the source word's counts, p_source_given_target = reverse_count / sum of
      the target word's reverse counts, and dice = (count + reverse_count) / (frequency of the source word + frequency
      of the target word); where words may be linked to several others dice may exceed 1.
    - target_words, source_words: every word, the most frequent first: its occurrences, those with a link, the share
      without one, the number of its partners, the entropy in bits of its distribution over them (of target words by
      reverse_count, of source words by count) and the best of them; of equal ones, the lowest unit. The last three are
      null for a word without a partner.

    Args:
        folder: holds word_pairs, source_units and target_units (.parquet).
        linked: over the same units.

    Returns:
        For each side, the share of tokens without a link, and the mean entropy weighted by frequency (of the words with
        a partner; left out where there is none).
    """
    units = {side: pq.read_table(folder / f"{side}_units.parquet") for side in ("source", "target")}
    sides = {side: _Side(table.num_rows) for side, table in units.items()}
    top = _Top(np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32), np.zeros((0, 2)))
    path = folder / "word_pairs.parquet"
    for source, target, counts in merged_word_pairs(path, np.ones(_corpora(path))):
        sides["source"].add(source, target, counts[:, 0])
        sides["target"].add(target, source, counts[:, 1])
        top.add(source, target, counts)
    texts = {side: table.column("text").combine_chunks() for side, table in units.items()}
    frequency = {side: table.column("frequency").to_numpy() for side, table in units.items()}
    with TableWriter(folder / "top_pairs.parquet", _TOP_PAIRS) as writer:
        writer.write(_top_pairs(top, sides, texts, frequency))
    summary: dict[str, float] = {}
    for side, other, links in (("source", "target", linked.source), ("target", "source", linked.target)):
        with TableWriter(folder / f"{side}_words.parquet", _WORDS) as writer:
            for table in _words(sides[side], texts[side], texts[other], frequency[side], links):
                writer.write(table)
        summary |= _summary(side, sides[side], frequency[side], links)
    return summary


def _corpora(path: Path) -> int:
    """Number of corpora: the last row has the last one."""
    with pq.ParquetFile(path) as file:
        groups = file.num_row_groups
        return 1 + int(pc.max(file.read_row_group(groups - 1, ["corpus"]).column(0)).as_py()) if groups else 0


def _top_pairs(
    top: _Top, sides: dict[str, _Side], texts: dict[str, pa.StringArray], frequency: dict[str, Int64]
) -> pa.Table:
    count, reverse = top.counts[:, 0], top.counts[:, 1]
    totals = sides["target"].total[top.target]
    columns = [
        texts["source"].take(pa.array(top.source)),
        texts["target"].take(pa.array(top.target)),
        count,
        reverse,
        count / sides["source"].total[top.source],
        np.divide(reverse, totals, out=np.zeros(len(reverse)), where=totals > 0),
        (count + reverse) / (frequency["source"][top.source] + frequency["target"][top.target]),
    ]
    return pa.table([pa.array(column) for column in columns], schema=_TOP_PAIRS)


def _words(
    side: _Side, texts: pa.StringArray, partners: pa.StringArray, frequency: Int64, linked: Int64
) -> Iterator[pa.Table]:
    """The rows of a table of words, the most frequent first."""
    entropy = side.entropy()
    order = np.argsort(-frequency, kind="stable")
    for start, end in parts(len(order), WRITTEN_ROWS):
        some = order[start:end]
        none = side.partners[some] == 0
        often = frequency[some]
        best_share = np.divide(side.largest[some], side.total[some], out=np.zeros(len(some)), where=~none)
        columns = [
            texts.take(pa.array(some)),
            pa.array(often),
            pa.array(linked[some]),
            pa.array(1 - linked[some] / np.maximum(often, 1), mask=often == 0),
            pa.array(side.partners[some]),
            pa.array(entropy[some], mask=none),
            partners.take(pa.array(side.best[some], mask=none)),
            pa.array(best_share, mask=none),
        ]
        yield pa.table(columns, schema=_WORDS)


def _summary(name: str, side: _Side, frequency: Int64, linked: Int64) -> dict[str, float]:
    summary = {f"{name}_unlinked_share": float(1 - linked.sum() / max(int(frequency.sum()), 1))}
    has = side.partners > 0
    weight = frequency[has]
    if weight.sum() > 0:
        summary[f"{name}_entropy"] = float(np.dot(side.entropy()[has], weight) / weight.sum())
    return summary
