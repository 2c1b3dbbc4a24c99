import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.alignment import diagnostics
from tasks.alignment.aligner import WordPairs
from tasks.alignment.bitext import Bitext
from tasks.alignment.diagnostics import LinkedWords, write_diagnostics
from tasks.alignment.links import Links
from tasks.alignment.word_pairs import write_word_pairs

# corpus, source, target, count, reverse count. Over both corpora: (0, 0): 6, 4; (0, 1): 2, 2; (1, 0): 4, 12.
ROWS = [(0, 0, 0, 5.0, 3.0), (0, 0, 1, 2.0, 2.0), (0, 1, 0, 4.0, 12.0), (1, 0, 0, 1.0, 1.0)]
SOURCE, TARGET = (("house", 10), ("home", 6), ("um", 30)), (("nyumba", 20), ("nyumbani", 4))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    columns = list(zip(*ROWS, strict=True))
    pairs = WordPairs(*(np.array(c, dtype=np.int32) for c in columns[:3]), *(np.array(c) for c in columns[3:]))
    write_word_pairs([pairs], tmp_path / "word_pairs.parquet")
    for name, words in (("source", SOURCE), ("target", TARGET)):
        texts, frequencies = zip(*words, strict=True)
        table = pa.table({"text": pa.array(texts), "frequency": pa.array(frequencies, pa.int64())})
        pq.write_table(table, tmp_path / f"{name}_units.parquet")
    return tmp_path


def linked(source: list[int], target: list[int]) -> LinkedWords:
    words = LinkedWords(len(source), len(target))
    words.source += source
    words.target += target
    return words


def test_values_by_hand(folder: Path) -> None:
    summary = write_diagnostics(folder, linked([8, 6, 0], [15, 1]))
    top = pq.read_table(folder / "top_pairs.parquet").to_pylist()
    assert top == [
        {
            "source": source,
            "target": target,
            "count": count,
            "reverse_count": reverse,
            "p_target_given_source": pytest.approx(forward_share),
            "p_source_given_target": pytest.approx(reverse_share),
            "dice": pytest.approx(dice),
        }
        for source, target, count, reverse, forward_share, reverse_share, dice in (
            ("house", "nyumba", 6.0, 4.0, 6 / 8, 4 / 16, 10 / 30),
            ("home", "nyumba", 4.0, 12.0, 1.0, 12 / 16, 16 / 26),
            ("house", "nyumbani", 2.0, 2.0, 2 / 8, 1.0, 4 / 14),
        )
    ]
    quarter = -(0.25 * math.log2(0.25) + 0.75 * math.log2(0.75))  # 0.811 bits
    names = ("text", "frequency", "linked", "unlinked_share", "partners", "entropy", "best_partner", "best_share")

    def words(name: str) -> list[tuple]:
        rows = pq.read_table(folder / f"{name}_words.parquet").to_pylist()
        return [tuple(row[column] for column in names) for row in rows]

    assert words("target") == [
        ("nyumba", 20, 15, 0.25, 2, pytest.approx(quarter), "home", 0.75),
        ("nyumbani", 4, 1, 0.75, 1, 0.0, "house", 1.0),
    ]
    assert words("source") == [
        ("um", 30, 0, 1.0, 0, None, None, None),
        ("house", 10, 8, pytest.approx(0.2), 2, pytest.approx(quarter), "nyumba", 0.75),
        ("home", 6, 6, 0.0, 1, 0.0, "nyumba", 1.0),
    ]
    assert summary == pytest.approx(
        {
            "source_unlinked_share": 1 - 14 / 46,
            "source_entropy": quarter * 10 / 16,
            "target_unlinked_share": 1 - 16 / 24,
            "target_entropy": quarter * 20 / 24,
        }
    )


def test_only_the_top_pairs_are_kept_and_of_equal_ones_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = np.random.default_rng(0).integers(1, 9, 500).astype(np.float64)
    numbers = np.arange(500, dtype=np.int32)
    pairs = WordPairs(np.zeros(500, dtype=np.int32), numbers, numbers[::-1].copy(), counts, counts)
    texts = pa.table({"text": [f"w{number}" for number in range(500)], "frequency": pa.array([9] * 500, pa.int64())})
    for side in ("source", "target"):
        pq.write_table(texts, tmp_path / f"{side}_units.parquet")
    monkeypatch.setattr("storage.tables.ROW_GROUP_ROWS", 7)
    monkeypatch.setattr(diagnostics, "TOP_PAIRS", 60)
    write_word_pairs([pairs], tmp_path / "word_pairs.parquet")
    write_diagnostics(tmp_path, LinkedWords(500, 500))
    best = sorted(range(500), key=lambda number: -counts[number])[:60]
    assert pq.read_table(tmp_path / "top_pairs.parquet").column("source").to_pylist() == [f"w{n}" for n in best]


def test_no_word_pair_at_all(folder: Path) -> None:
    write_word_pairs([], folder / "word_pairs.parquet")
    summary = write_diagnostics(folder, linked([0, 0, 0], [0, 0]))
    assert summary == {"source_unlinked_share": 1.0, "target_unlinked_share": 1.0}
    assert pq.read_table(folder / "top_pairs.parquet").num_rows == 0
    assert [row["entropy"] for row in pq.read_table(folder / "target_words.parquet").to_pylist()] == [None, None]


def test_entropy_of_equal_shares_is_the_logarithm_of_their_number(tmp_path: Path) -> None:
    n = 8
    numbers = np.arange(n, dtype=np.int32)
    pairs = WordPairs(
        np.zeros(n, dtype=np.int32), numbers, np.zeros(n, dtype=np.int32), np.full(n, 0.1), np.full(n, 0.1)
    )
    write_word_pairs([pairs], tmp_path / "word_pairs.parquet")
    for side, words in (("source", n), ("target", 1)):
        table = pa.table({"text": ["w"] * words, "frequency": pa.array([1] * words, pa.int64())})
        pq.write_table(table, tmp_path / f"{side}_units.parquet")
    assert write_diagnostics(tmp_path, LinkedWords(n, 1))["target_entropy"] == pytest.approx(3.0)


def test_a_word_linked_twice_in_one_place_counts_once() -> None:
    def array(values: list[int]) -> np.ndarray:
        return np.array(values, dtype=np.int32)

    # "0 1 0 | 1" with "0 0 | 2": links 0-0, 0-1, 2-1 in the first pair, none in the second.
    bitext = Bitext(array([0, 1, 0, 1]), np.array([0, 3, 4]), array([0, 0, 2]), np.array([0, 2, 3]), 2, 3)
    words = LinkedWords(2, 3)
    words.add(bitext, Links(np.array([0, 3, 3]), array([0, 0, 2]), array([0, 1, 1])))
    assert (words.source.tolist(), words.target.tolist()) == ([2, 0], [2, 0, 0])
    words.add(bitext.part(1, 2), Links(np.array([0, 1]), array([0]), array([0])))
    assert (words.source.tolist(), words.target.tolist()) == ([2, 1], [2, 0, 1])
