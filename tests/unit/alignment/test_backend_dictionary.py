import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.alignment.aligner import Aligned, Job
from tasks.alignment.backends import registry
from tasks.alignment.backends.nearest_partner import fill_nearest, make_translations
from tasks.contract import InputError

ENTRIES = "house\tdomo\nriver\trivero\nthe\tla\nsmall house\tdometo\nbank\tbordo\nbank\tbanko\n"


@pytest.fixture
def run(make_job: Callable[..., Job], tmp_path: Path) -> Callable[..., tuple[Job, Aligned]]:
    """Aligns pairs by a word list."""

    def align(pairs: list[tuple[str, str]], entries: str = ENTRIES, **values: object) -> tuple[Job, Aligned]:
        path = tmp_path / "words.tsv"
        path.write_text(entries)
        job = make_job(pairs, files={"dictionary": path}, aligner="dictionary", dictionary="words.tsv", **values)
        return job, registry.align(job)

    return align


def test_translations_and_words_spelt_alike_are_linked(run, links_of) -> None:
    job, aligned = run([("the house , 12", "la domo , 12"), ("see river", "rivero vidas")])
    for direction in ("forward", "reverse"):
        assert links_of(job, aligned, direction) == ["0-0 1-1 2-2 3-3", "1-0"]
    assert aligned.expected is None


def test_the_nearest_to_the_diagonal_is_taken(run, links_of) -> None:
    job, aligned = run([("the house the river the", "la domo la rivero la"), ("bank bank x", "banko bordo x")])
    assert links_of(job, aligned, "forward") == ["0-0 1-1 2-2 3-3 4-4", "0-0 1-1 2-2"]
    job, aligned = run([("the a b c d the", "la x")])
    assert links_of(job, aligned, "forward") == ["0-0"]
    assert links_of(job, aligned, "reverse") == ["0-0 5-0"]


def test_case_counts_unless_it_is_ignored(run, links_of) -> None:
    pairs = [("The House", "La domo"), ("the x", "la y")]
    job, aligned = run(pairs)
    assert links_of(job, aligned, "forward") == ["", "0-0"]
    job, aligned = run(pairs, lowercase=True)
    assert links_of(job, aligned, "forward") == ["0-0 1-1", "0-0"]
    job, aligned = run(pairs, entries="THE\tLA\n", lowercase=True)
    assert links_of(job, aligned, "forward") == ["0-0", "0-0"]


def test_entries_of_several_words_are_counted_in_the_log(run, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        run([("the house", "la domo")], entries=ENTRIES + "x\t\n a \tb\u00a0c\n")
    assert "dictionary: 8 entries of words.tsv, 3 left out because a side has several words or none" in caplog.messages
    assert "dictionary: 2 entries have both their words in the text" in caplog.messages


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ("house\tdomo\nriver\n", r"cannot be read: line 2 has 1 columns"),
        ("house\tdomo\n\nriver\triver\to\n", r"cannot be read: line 3 has 3 columns"),
        ("", "cannot be read"),
        ("domo\thouse\n", r"none of the 1 one-word entries .* has both its words in the text"),
    ],
)
def test_a_list_that_cannot_be_used(run, entries: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        run([("the house", "la domo")], entries=entries)


def test_a_list_that_is_no_text(run, tmp_path: Path, make_job: Callable[..., Job]) -> None:
    path = tmp_path / "bytes.tsv"
    path.write_bytes(b"a\t\xff\xfe\n")
    job = make_job([("a", "b")], files={"dictionary": path}, aligner="dictionary", dictionary="x")
    with pytest.raises(InputError, match=r"bytes\.tsv cannot be read"):
        registry.align(job)


def slow_nearest(generated: list[int], given: list[int], allowed: set[tuple[int, int]]) -> list[int]:
    found = []
    for j, word in enumerate(generated):
        distances = [
            (abs((i + 0.5) / len(given) - (j + 0.5) / len(generated)), i)
            for i, other in enumerate(given)
            if (other, word) in allowed
        ]
        found.append(min(distances, key=lambda item: (round(item[0], 9), item[1]))[1] if distances else -1)
    return found


SIDE = st.lists(st.integers(0, 4), min_size=1, max_size=9)


@settings(max_examples=60, deadline=None)
@given(source=SIDE, target=SIDE, allowed=st.sets(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1))
def test_nearest_as_a_slow_search_finds_it(source: list[int], target: list[int], allowed: set[tuple[int, int]]) -> None:
    pairs = np.array(sorted(allowed), dtype=np.int64)
    known = make_translations(pairs[:, 0], pairs[:, 1], 5, 5)
    sides = [(np.array(side, np.int32), np.array([0, len(side)])) for side in (source, target)]
    best = np.full(len(target), -1, np.int16)
    fill_nearest(sides[1], sides[0], known.of_target, best)
    assert best.tolist() == slow_nearest(target, source, allowed)
    best = np.full(len(source), -1, np.int16)
    fill_nearest(sides[0], sides[1], known.of_source, best)
    assert best.tolist() == slow_nearest(source, target, {(b, a) for a, b in allowed})
