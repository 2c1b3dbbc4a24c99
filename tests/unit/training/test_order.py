import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tasks.training.order import Passes, batch_indices, permutation


@given(st.integers(1, 300), st.integers(0, 2**31), st.integers(0, 20))
def test_is_a_permutation(sequences, seed, epoch):
    assert sorted(permutation(sequences, seed, epoch)) == list(range(sequences))


@given(st.integers(1, 40), st.integers(1, 60), st.integers(0, 100))
def test_batches_run_through_every_pass(sequences, batch_size, seed):
    steps = -(-3 * sequences // batch_size)
    row = np.concatenate([batch_indices(step, batch_size, sequences, seed) for step in range(steps)])
    for epoch in range(3):
        one_pass = row[epoch * sequences : (epoch + 1) * sequences]
        np.testing.assert_array_equal(one_pass, permutation(sequences, seed, epoch))


def test_depends_on_seed_and_epoch_only():
    first = batch_indices(7, 32, 1000, seed=1)
    assert not np.array_equal(batch_indices(7, 32, 1000, seed=2), first)
    np.testing.assert_array_equal(batch_indices(7, 32, 1000, seed=1), first)
    assert not np.array_equal(permutation(1000, 1, 0), permutation(1000, 1, 1))


def test_texts_have_orders_of_their_own():
    """The first text has the order that it has alone."""
    np.testing.assert_array_equal(permutation(1000, 1, 3, text=0), permutation(1000, 1, 3))
    assert not np.array_equal(permutation(1000, 1, 3, text=1), permutation(1000, 1, 3))
    assert not np.array_equal(permutation(1000, 1, 0, text=3), permutation(1000, 1, 3))


@given(st.integers(1, 50), st.lists(st.integers(0, 200), max_size=20))
def test_places_in_any_order(sequences, places):
    passes = Passes(sequences, seed=4, text=2)
    expected = [permutation(sequences, 4, place // sequences, text=2)[place % sequences] for place in places]
    assert passes.at(np.array(places, dtype=np.int64)).tolist() == expected
