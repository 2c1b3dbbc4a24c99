"""What the alignment benchmark rests on: its choice of text, its gold links, its measurements, its bars."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zstandard

from benchmarks.alignment_accuracy import bars, rates
from benchmarks.alignment_backends import METHODS, all_links
from benchmarks.alignment_corpora import (
    GoldSet,
    bitext_of,
    clean,
    evenly,
    gold_corpora,
    hansards_first,
    pool,
    sample_corpus,
    split,
    vocabulary,
    write_text,
)
from benchmarks.alignment_golden import shares
from benchmarks.alignment_results import Bar, shown, verdict
from benchmarks.measured_child import Measured, measure
from tasks.alignment.pharaoh import parse_pharaoh

PAIRS = [("a b", "x"), ("c", "y z"), ("d", "w")]


def write(path: Path, *rows: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(zstandard.ZstdCompressor().compress(("\n".join(rows) + "\n").encode()))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    gold = tmp_path / "alignments_gold"
    write(gold / "en-it" / "b.tsv.zst", "src\ttgt\tsure\tpossible", "The  Sun\tIl Sole\t0-0\t0-0 1-1")
    write(gold / "en-it" / "a.tsv.zst", "src\ttgt\tsure\tpossible", "Two .\tDue .\t0-0 1-1\t0-0 1-1", "X\tX\t\t0-0")
    parallel = tmp_path / "parallel"
    write(parallel / "en-it" / "talk.tsv.zst", "src\ttgt", "It's 7,000!\tDell'acqua fresca.")
    write(parallel / "en-fr" / "hansards.tsv.zst", "src\ttgt", "The end .\tLa fin .", "a ||| b\tc d")
    return tmp_path


def test_gold_lines_come_first_in_order_of_the_files(data: Path) -> None:
    (corpus,) = gold_corpora(data)
    assert corpus.source == ["two .", "x", "the sun", "it's 7,000 !"]
    assert corpus.target == ["due .", "x", "il sole", "dell' acqua fresca ."]
    assert corpus.sets == (GoldSet("en-it/a", 0, 2), GoldSet("en-it/b", 2, 3))
    assert corpus.sure.offsets.tolist() == [0, 2, 2, 3]
    assert corpus.possible.offsets.tolist() == [0, 2, 3, 5]


def test_the_pool_starts_with_hansards_and_leaves_out_separators(data: Path) -> None:
    assert pool(data) == [("the end .", "la fin ."), ("it's 7,000 !", "dell' acqua fresca .")]


def test_words_of_running_text() -> None:
    assert split("L’eau, well-known: 3.5%", "fr") == "l’ eau , well-known : 3.5 %"
    assert split("Don't", "en") == "don't"
    assert split("मेहमानों को", "hi") == "मेहमानों को"
    assert clean(" A\u00a0b  c ") == "a b c"


def test_texts_of_a_size() -> None:
    assert list(hansards_first(PAIRS, 5)) == [*PAIRS, *PAIRS[:2]]
    assert list(evenly(PAIRS, 2)) == [PAIRS[0], PAIRS[1]]
    assert list(evenly(PAIRS, 4)) == [*PAIRS, PAIRS[0]]
    spread = [number for number, _ in evenly([(k, k) for k in range(100)], 4)]
    assert spread == [0, 25, 50, 75]


def test_written_text_is_counted(tmp_path: Path) -> None:
    text = write_text(iter(PAIRS * 2), tmp_path / "text", distinct=3)
    assert (text.pairs, text.words, text.cells, text.distinct) == (6, (8, 8), 10, 3)
    assert text.source.read_text() == "a b\nc\nd\n" * 2


def test_numbers_of_words() -> None:
    words = bitext_of(["b a b", "c"], ["x", "x y"])
    assert words.source.tolist() == [0, 1, 0, 2]
    assert words.target_offsets.tolist() == [0, 1, 3]
    assert (vocabulary(["b a b", "c"]), words.source_words, words.target_words) == (["b", "a", "c"], 3, 2)


def test_the_sample_is_aligned_by_every_method() -> None:
    corpus = sample_corpus(400)
    assert rates({"true": corpus.sure}, corpus, corpus.sets[0]) == {"true": 0.0}
    found = rates(all_links("builtin", corpus), corpus, corpus.sets[0])
    assert tuple(found) == METHODS
    assert all(0 < value < 40 for value in found.values())


def test_shares_of_identical_links() -> None:
    found, expected = parse_pharaoh(b"0-0 1-1\n2-2\n"), parse_pharaoh(b"0-0 1-1\n2-1\n")
    assert shares(found, expected) == pytest.approx((200 / 3, 50.0))


def test_a_child_is_measured_by_itself() -> None:
    own = np.ones(50 * 2**20)  # 400 MiB in this process are none of the child's
    small = measure([sys.executable, "-c", "pass"], 1)
    large = measure([sys.executable, "-c", "x = bytes(range(256)) * 2**19; import time; time.sleep(0.2)"], 1)
    assert own.sum() > 0
    assert small.peak_bytes < 64 * 2**20
    assert 120 * 2**20 < large.peak_bytes - small.peak_bytes < 160 * 2**20
    assert large.seconds >= 0.2


def test_a_failed_child_is_told() -> None:
    with pytest.raises(RuntimeError, match="no luck"):
        measure([sys.executable, "-c", "raise SystemExit('no luck')"], 1)


def test_times_beside_other_processes_are_not_judged() -> None:
    alone, beside = (Measured(1.0, 1.0, 0, others) for others in (0.05, 1.0))
    assert [alone.disturbed(2, 2), beside.disturbed(1, 2), beside.disturbed(2, 2)] == [False, False, True]
    bar = Bar("x", 9.0, 5.0, disturbed=True)
    assert (bar.passed, verdict(bar)) == (False, "DISTURBED")
    assert [verdict(Bar("x", value, 5.0)) for value in (9.0, 1.0)] == ["met", "MISSED"]


def test_other_processes_are_seen() -> None:
    busy = "import time; s = time.perf_counter()\nwhile time.perf_counter() - s < 1.5: pass"
    with subprocess.Popen([sys.executable, "-c", busy]):
        found = measure([sys.executable, "-c", "import time; time.sleep(0.7)"], 1)
    assert found.others > 0.3


def test_bars() -> None:
    assert Bar("x", 5.0, 5.0).passed
    assert not Bar("x", 0.31, 0.3, at_least=False).passed
    assert not Bar("x", float("nan"), 1.0).passed
    builtin, plus, golden = (dict.fromkeys(METHODS, value) for value in (18.8, 15.9, 18.7))
    found = bars(
        {"en-fr/wpt03-hansards-test": {"builtin": builtin, "builtin-plus": plus, "fast_align (golden)": golden}}
    )
    assert [bar.passed for bar in found] == [True, False] * len(METHODS)
    assert [shown(value) for value in (None, 12345, 1234.5, 0.5, 0.00012, 0.0)] == [
        "-", "12,345", "1,234", "0.50", "0.00012", "0.00",
    ]  # fmt: skip
