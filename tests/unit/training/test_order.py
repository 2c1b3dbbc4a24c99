import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tasks.training.order import batch_indices, permutation


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
    first = batch_indices(7, 32, 1000, seed=1).copy()
    permutation.cache_clear()
    np.testing.assert_array_equal(batch_indices(7, 32, 1000, seed=1), first)
    assert not np.array_equal(batch_indices(7, 32, 1000, seed=2), first)
    assert not np.array_equal(permutation(1000, 1, 0), permutation(1000, 1, 1))
