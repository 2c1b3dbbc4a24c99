"""How often word pairs are linked, and the files of counted word pairs."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from storage.tables import TableWriter, write_table
from tasks.alignment.aligner import WordPairs
from tasks.alignment.bitext import Bitext
from tasks.alignment.compiled import compiled
from tasks.alignment.links import Int32, Int64, Integers, Links, parts
from tasks.alignment.sums import MEMORY, Float64, KeySums, merge_runs

WORD_PAIRS = pa.schema(
    [
        ("source_unit", pa.int32()),
        ("target_unit", pa.int32()),
        ("corpus", pa.int32()),
        ("count", pa.float64()),
        ("reverse_count", pa.float64()),
    ]
)
CORPORA = pa.schema([("corpus", pa.int32()), ("name", pa.string()), ("pairs", pa.int64())])
LINK_PAIRS = 8192  # sentence pairs counted at once: their links stay in the processor's cache
_UNIT_BITS = 32


@compiled
def _link_keys(
    links: tuple[Int64, Int32, Int32],
    source: tuple[Int32, Int64],
    target: tuple[Int32, Int64],
    corpus: Int32,
    sizes: tuple[int, int],
    keys: Int64,
) -> int:
    """Fill `keys` with a number for (corpus, source word, target word) of every link.

    Returns:
        The first pair with a link outside its sentences, -1 if there is none.
    """
    for pair in range(len(links[0]) - 1):
        i, j = source[1][pair], target[1][pair]
        n, m = source[1][pair + 1] - i, target[1][pair + 1] - j
        base = np.int64(corpus[pair]) * sizes[0]
        for k in range(links[0][pair], links[0][pair + 1]):
            a, b = links[1][k], links[2][k]
            if a < 0 or a >= n or b < 0 or b >= m:
                return pair
            keys[k] = (base + source[0][i + a]) * sizes[1] + target[0][j + b]
    return -1


class LinkCounts:
    """How often each word pair is linked, by corpus; memory is bounded by the distinct word pairs and by `memory`."""

    def __init__(self, folder: Path | None = None, memory: int = MEMORY) -> None:
        """No links yet.

        Args:
            folder: where what exceeds `memory` is written; None: a temporary folder.
            memory: bytes.
        """
        self._sums = KeySums(1, np.int64, folder, memory)
        self._sizes: tuple[int, int] | None = None
        self._pairs = 0

    def add(self, units: Bitext, links: Links, corpus: Int32) -> None:
        """Count the links of some more sentence pairs.

        Args:
            units: N pairs, over the same vocabularies in every call.
            links: of these pairs.
            corpus: int32 [N], index of each pair's corpus.

        Raises:
            ValueError: the sizes differ, a link lies outside its sentences, or the vocabularies are too large.
        """
        if not len(units) == len(links) == len(corpus):
            raise ValueError(f"{len(units)} pairs, links of {len(links)} and corpora of {len(corpus)}")
        sizes = (max(units.source_words, 1), max(units.target_words, 1))
        if self._sizes not in (None, sizes):
            raise ValueError(f"vocabularies of {sizes} words after ones of {self._sizes}")
        corpora = int(corpus.max(initial=0)) + 1
        if corpora * sizes[0] * sizes[1] >= 2**63:
            raise ValueError(f"too many word pairs to number: {corpora} corpora of {sizes[0]} by {sizes[1]} words")
        self._sizes = sizes
        for start, end in parts(len(units), LINK_PAIRS):
            some, their = units.part(start, end), links.part(start, end)
            keys = np.empty(len(their.source), dtype=np.int64)
            wrong = _link_keys(
                (their.offsets, their.source, their.target),
                (some.source, some.source_offsets),
                (some.target, some.target_offsets),
                corpus[start:end],
                sizes,
                keys,
            )
            if wrong >= 0:
                raise ValueError(f"sentence pair {self._pairs + start + wrong}: a link to a word that is not there")
            self._sums.count(keys)
        self._pairs += len(units)

    def result(self) -> Iterator[WordPairs]:
        """The word pairs ordered by corpus, source, target; nothing may be added afterwards."""
        source_words, target_words = self._sizes or (1, 1)
        for keys, sums in self._sums.result():
            rest, target = np.divmod(keys, target_words)
            corpus, source = np.divmod(rest, source_words)
            count = sums[:, 0].astype(np.float64)
            yield WordPairs(corpus.astype(np.int32), source.astype(np.int32), target.astype(np.int32), count, count)


def write_word_pairs(pairs: Iterable[WordPairs], path: Path) -> int:
    """Write blocks of word pairs as one Parquet file; returns the number of rows.

    Raises:
        ValueError: they are not ordered by corpus, source, target, or one occurs twice.
    """
    rows, last = 0, (-1, -1)
    with TableWriter(path, WORD_PAIRS) as writer:
        for block in pairs:
            if not len(block.count):
                continue
            units = _unit_key(block.source, block.target)
            first, (corpus, key) = (int(block.corpus[0]), int(units[0])), (np.diff(block.corpus), np.diff(units))
            if first <= last or not np.all((corpus > 0) | ((corpus == 0) & (key > 0))):
                raise ValueError("word pairs must come once each, ordered by corpus, source and target")
            last = int(block.corpus[-1]), int(units[-1])
            columns = (block.source, block.target, block.corpus, block.count, block.reverse_count)
            writer.write(pa.table([pa.array(column) for column in columns], names=WORD_PAIRS.names))
            rows += len(units)
    return rows


def write_corpora(names: Sequence[str], pairs: Sequence[int] | Int64, path: Path) -> None:
    """Write the table of corpora: name and number of aligned sentence pairs of each index."""
    columns = [pa.array(range(len(names)), pa.int32()), pa.array(names, pa.string()), pa.array(pairs, pa.int64())]
    write_table(pa.table(columns, schema=CORPORA), path)


def _unit_key(source: Integers, target: Integers) -> Int64:
    return (source.astype(np.int64) << _UNIT_BITS) | target


def merged_word_pairs(
    path: Path, weights: Float64, report: Callable[[int], None] = lambda rows: None
) -> Iterator[tuple[Int32, Int32, Float64]]:
    """The word pairs of a file, summed over the corpora; memory is that of a row group per corpus.

    Args:
        path: file as `write_word_pairs` writes it.
        weights: float64 [corpora], factor of each corpus's counts; one with 0 is not read.
        report: called with the number of rows read so far.

    Yields:
        Blocks ordered by source, then target: int32 [R] source units, int32 [R] target units, float64 [R, 2] counts of
        target given source and of source given target.
    """
    read = 0

    def rows_of(corpus: int) -> Iterator[tuple[Int64, Float64]]:
        nonlocal read
        for table in _row_groups(path, corpus):
            source, target, _, count, reverse = (column.to_numpy() for column in table.columns)
            yield _unit_key(source, target), np.stack([count, reverse], axis=1) * weights[corpus]
            read += table.num_rows
            report(read)

    for keys, sums in merge_runs([rows_of(int(corpus)) for corpus in np.flatnonzero(weights)]):
        target_bits = (1 << _UNIT_BITS) - 1
        yield (keys >> _UNIT_BITS).astype(np.int32), (keys & target_bits).astype(np.int32), sums


def _row_groups(path: Path, corpus: int) -> Iterator[pa.Table]:
    """The rows of one corpus; row groups of others are not read."""
    with pq.ParquetFile(path) as file:
        column = file.schema_arrow.get_field_index("corpus")
        for group in range(file.num_row_groups):
            figures = file.metadata.row_group(group).column(column).statistics
            if figures is not None and figures.has_min_max and not figures.min <= corpus <= figures.max:
                continue
            table = file.read_row_group(group, columns=WORD_PAIRS.names)
            yield table.filter(pc.equal(table.column("corpus"), corpus))
