from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage import tables
from tasks.alignment import word_pairs as word_pairs_module
from tasks.alignment.aligner import WordPairs
from tasks.alignment.bitext import Bitext
from tasks.alignment.links import Links, offsets_from_lengths
from tasks.alignment.word_pairs import LinkCounts, merged_word_pairs, write_corpora, write_word_pairs

Sentence = tuple[list[int], list[int], list[tuple[int, int]]]
Rows = list[tuple[int, int, int, float, float]]


def flat(lists: Iterable[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    lists = list(lists)
    words = np.array([word for words in lists for word in words], dtype=np.int32)
    return words, offsets_from_lengths(np.array([len(words) for words in lists], dtype=np.int64))


def arrays(sentences: list[Sentence]) -> tuple[Bitext, Links]:
    (source, source_offsets), (target, target_offsets) = (flat(s[side] for s in sentences) for side in (0, 1))
    (i, offsets), (j, _) = (flat([link[side] for link in s[2]] for s in sentences) for side in (0, 1))
    return Bitext(source, source_offsets, target, target_offsets, 6, 5), Links(offsets, i, j)


def rows_of(blocks: Iterable[WordPairs]) -> Rows:
    return [
        row
        for b in blocks
        for row in zip(*(x.tolist() for x in (b.corpus, b.source, b.target, b.count, b.reverse_count)), strict=True)
    ]


@st.composite
def linked(draw: st.DrawFn) -> Sentence:
    source = draw(st.lists(st.integers(0, 5), min_size=1, max_size=4))
    target = draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))
    positions = st.tuples(st.integers(0, len(source) - 1), st.integers(0, len(target) - 1))
    return source, target, draw(st.lists(positions, max_size=6, unique=True))


@given(
    sentences=st.lists(st.tuples(linked(), st.integers(0, 2)), max_size=12),
    cut=st.integers(0, 12),
    size=st.integers(1, 5),
)
@settings(max_examples=60, deadline=None)
def test_counts_are_those_of_a_counter(sentences: list[tuple[Sentence, int]], cut: int, size: int) -> None:
    expected = Counter(
        (corpus, source[i], target[j]) for (source, target, links), corpus in sentences for i, j in links
    )
    counts = LinkCounts()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(word_pairs_module, "LINK_PAIRS", size)
        for some in (sentences[:cut], sentences[cut:]):
            units, links = arrays([sentence for sentence, _ in some])
            counts.add(units, links, np.array([corpus for _, corpus in some], dtype=np.int32))
        assert rows_of(counts.result()) == [(*key, count, count) for key, count in sorted(expected.items())]


def test_links_beyond_the_memory() -> None:
    random = np.random.default_rng(2)
    n, words = 3000, 500
    source, target = random.integers(0, words, (2, 4 * n)).astype(np.int32)
    offsets = np.arange(0, 4 * n + 1, 4, dtype=np.int64)
    places = np.tile(np.arange(4, dtype=np.int32), n)
    bitext, links = Bitext(source, offsets, target, offsets, words, words), Links(offsets, places, places)
    found = []
    for memory in (1, 2**30):
        counts = LinkCounts(memory=memory)
        counts.add(bitext, links, np.zeros(n, dtype=np.int32))
        found.append(rows_of(counts.result()))
    assert found[0] == found[1]
    assert len(found[0]) > 10_000
    assert sum(row[3] for row in found[0]) == 4 * n


def test_input_that_cannot_be_right() -> None:
    units, links = arrays([([1, 2], [3], [(1, 0)]), ([4], [0], [(0, 1)])])
    with pytest.raises(ValueError, match=r"sentence pair 1: a link to a word that is not there"):
        LinkCounts().add(units, links, np.zeros(2, dtype=np.int32))
    with pytest.raises(ValueError, match=r"2 pairs, links of 2 and corpora of 1"):
        LinkCounts().add(units, links, np.zeros(1, dtype=np.int32))
    large = Bitext(units.source, units.source_offsets, units.target, units.target_offsets, 2**31 - 1, 2**31 - 1)
    with pytest.raises(ValueError, match=r"too many word pairs to number: 4 corpora of 2147483647 by 2147483647"):
        LinkCounts().add(large, links, np.full(2, 3, dtype=np.int32))


def block(rows: Rows) -> WordPairs:
    columns = list(zip(*rows, strict=True))
    integers = [np.array(column, dtype=np.int32) for column in columns[:3]]
    return WordPairs(*integers, *(np.array(column, dtype=np.float64) for column in columns[3:]))


ROWS: Rows = [(0, 0, 1, 1.0, 2.0), (0, 3, 0, 0.5, 0.25), (1, 0, 1, 4.0, 1.0), (1, 0, 2, 8.0, 8.0), (2, 3, 0, 2.0, 0.0)]


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "word_pairs.parquet"
    assert write_word_pairs([block(ROWS[:2]), block(ROWS[2:])], path) == 5
    names = ["corpus", "source_unit", "target_unit", "count", "reverse_count"]
    assert [tuple(row[name] for name in names) for row in pq.read_table(path).to_pylist()] == ROWS
    other = tmp_path / "other.parquet"
    write_word_pairs([block([row]) for row in ROWS], other)
    assert path.read_bytes() == other.read_bytes()
    write_corpora(["news", "bible"], [7, 9], tmp_path / "corpora.parquet")
    assert pq.read_table(tmp_path / "corpora.parquet").to_pylist() == [
        {"corpus": 0, "name": "news", "pairs": 7},
        {"corpus": 1, "name": "bible", "pairs": 9},
    ]


@pytest.mark.parametrize("blocks", [[ROWS[1:2], ROWS[:1]], [[ROWS[3], ROWS[2]]], [ROWS[:1], ROWS[:1]], [ROWS[::-1]]])
def test_word_pairs_out_of_order(blocks: list[Rows], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="once each, ordered by corpus, source and target"):
        write_word_pairs(map(block, blocks), tmp_path / "word_pairs.parquet")


@pytest.mark.parametrize("group", [1, 2, 65_536])
def test_merged_over_corpora(group: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "ROW_GROUP_ROWS", group)
    write_word_pairs([block(ROWS)], tmp_path / "word_pairs.parquet")
    read: list[int] = []
    found = list(merged_word_pairs(tmp_path / "word_pairs.parquet", np.array([1.0, 0.5, 10.0]), read.append))
    rows = [(s, t, *c) for a, b, sums in found for s, t, c in zip(a.tolist(), b.tolist(), sums.tolist(), strict=True)]
    assert rows == [(0, 1, 3.0, 2.5), (0, 2, 4.0, 4.0), (3, 0, 20.5, 0.25)]
    assert read[-1] == 5
    found = list(merged_word_pairs(tmp_path / "word_pairs.parquet", np.array([0.0, 0.0, 1.0])))
    assert [x.tolist() for x in found[0]] == [[3], [0], [[2.0, 0.0]]]
