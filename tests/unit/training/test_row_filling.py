import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.training.row_filling import fill_rows


def rows_of(lengths, capacity, seed=0):
    return fill_rows(np.asarray(lengths, dtype=np.int64), capacity, np.random.default_rng(seed))


def first_fit_decreasing(lengths, capacity):
    """How many rows first-fit-decreasing needs, piece by piece."""
    room = []
    for length in sorted(lengths, reverse=True):
        row = next((row for row, left in enumerate(room) if left >= length), None)
        if row is None:
            row = len(room)
            room.append(capacity)
        room[row] -= length
    return len(room)


@given(st.integers(1, 40).flatmap(lambda c: st.tuples(st.just(c), st.lists(st.integers(1, c), max_size=60))))
def test_rows_are_valid(case):
    capacity, lengths = case
    rows = rows_of(lengths, capacity)
    used = np.bincount(rows, weights=lengths) if lengths else np.empty(0)
    assert (used <= capacity).all()
    assert (used > 0).all(), "no row is empty, none is skipped"
    assert (rows >= 0).all()


def test_by_hand():
    """8 = 5 + 3 = 6 + 2."""
    rows = rows_of([2, 3, 5, 6], 8)
    assert rows[0] == rows[3] != rows[1] == rows[2]


@pytest.mark.parametrize("mean", [12, 30, 60])
def test_short_sentences_fill_rows(mean):
    lengths = np.clip(np.random.default_rng(2).lognormal(np.log(mean), 0.5, 20_000), 3, 512).astype(np.int64)
    rows = rows_of(lengths, 512)
    assert lengths.sum() / (512 * (rows.max() + 1)) > 0.998


@pytest.mark.parametrize("longest", [100, 300, 512])
def test_as_few_rows_as_first_fit_decreasing(longest):
    """Also where pieces are about as long as a row, and have to be paired."""
    lengths = np.random.default_rng(3).integers(2, longest + 1, 1500)
    assert rows_of(lengths, 512).max() + 1 <= 1.01 * first_fit_decreasing(lengths.tolist(), 512)


@pytest.mark.parametrize("lengths", [[3, 9], [0, 8]])
def test_pieces_of_impossible_lengths(lengths):
    with pytest.raises(ValueError, match="a row takes 1 to 8"):
        rows_of(lengths, 8)


def test_no_pieces():
    assert rows_of([], 8).shape == (0,)


def test_rows_mix_long_and_short_pieces():
    """The mean length of a row's pieces varies as by chance, or little more; in rows of equal pieces it would by 27."""
    lengths = np.random.default_rng(4).integers(5, 100, 20_000)
    rows = rows_of(lengths, 512)
    means = np.bincount(rows, weights=lengths) / np.bincount(rows)
    by_chance = lengths.reshape(-1, 10).mean(axis=1)
    assert means.std() < 1.2 * by_chance.std() < lengths.std() / 1.5


def test_depends_on_the_seed_only():
    lengths = np.random.default_rng(4).integers(2, 30, 500)
    np.testing.assert_array_equal(rows_of(lengths, 64, seed=1), rows_of(lengths, 64, seed=1))
    assert not np.array_equal(rows_of(lengths, 64, seed=1), rows_of(lengths, 64, seed=2))
