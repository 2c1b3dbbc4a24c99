"""The sparse, row-stochastic matrix, its files and its product with a table."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.embeddings.canonical import Vocabulary
from tasks.embeddings.mapping_files import entries_table, read_mapping, write_mapping
from tasks.embeddings.sparse_rows import SparseRows
from tasks.embeddings.token_mapping import TokenMapping, merge
from tasks.embeddings.weighted_rows import weighted_rows


def vocabulary(size: int) -> Vocabulary:
    tokens = [f"t{i}" for i in range(size)]
    none = np.zeros(size, dtype=bool)
    return Vocabulary(tokens, [token.encode() for token in tokens], none, none, {})


@st.composite
def mappings(draw, target_size=None, source_size=None):
    target_size = target_size or draw(st.integers(1, 8))
    source_size = source_size or draw(st.integers(1, 8))
    entry = st.tuples(
        st.integers(0, target_size - 1), st.integers(0, source_size - 1), st.floats(1e-6, 1e6, allow_nan=False)
    )
    entries = draw(st.lists(entry, max_size=30))
    rows, ids, weights = (np.array([e[n] for e in entries], dtype=t) for n, t in enumerate((int, int, float)))
    origin = np.array(draw(st.lists(st.integers(0, 2), min_size=target_size, max_size=target_size)), dtype=np.uint8)
    return TokenMapping.from_coo(rows, ids, weights, (target_size, source_size), origin, ("a", "b", "c"))


def dense(mapping: TokenMapping) -> np.ndarray:
    matrix = np.zeros(mapping.shape)
    matrix[mapping.rows.row_of_entry(), mapping.source_ids] = mapping.weights
    return matrix


@given(mappings())
def test_rows_sum_to_1_or_are_uncovered(mapping):
    sums = dense(mapping).sum(axis=1)
    assert np.allclose(sums[mapping.covered()], 1)
    assert np.all(sums[~mapping.covered()] == 0)
    again = mapping.normalised()
    assert np.allclose(again.weights, mapping.weights)


@given(mappings())
def test_entropy(mapping):
    expected = [-sum(w * math.log(w) for w in row if w > 0) for row in dense(mapping)]
    assert np.allclose(mapping.entropy(), expected)


@given(mappings(), st.integers(1, 5))
def test_product_equals_the_dense_one(mapping, width):
    table = np.random.default_rng(0).normal(size=(mapping.source_size, width)).astype(np.float32)
    found = weighted_rows(mapping.rows, torch.from_numpy(table), columns=2).numpy()
    assert np.allclose(found, dense(mapping) @ table, atol=1e-5)


@settings(max_examples=25)
@given(mapping=mappings())
def test_files_give_the_same_mapping_back(mapping, tmp_path_factory):
    folder = tmp_path_factory.mktemp("mapping")
    frequency = np.arange(mapping.target_size, dtype=np.int64)
    write_mapping(folder, mapping, vocabulary(mapping.target_size), vocabulary(mapping.source_size), frequency, 7)
    found, seed = read_mapping(folder)
    assert found.shape == mapping.shape
    for name in ("indptr", "source_ids", "weights"):
        assert np.array_equal(getattr(found, name), getattr(mapping, name))
        assert getattr(found, name).dtype == getattr(mapping, name).dtype
    assert found.origins() == mapping.origins()
    assert seed == (None if mapping.covered().all() else 7)


@given(mappings(target_size=5, source_size=4), mappings(target_size=5, source_size=4))
def test_merge_is_the_mean_over_the_mappings_that_cover_a_row(one, two):
    merged = merge([one, two], [3.0, 1.0])
    for row, (a, b) in enumerate(zip(dense(one), dense(two), strict=True)):
        both = one.covered()[row] and two.covered()[row]
        expected = (3 * a + b) / 4 if both else a + b
        assert np.allclose(dense(merged)[row], expected)
        if one.covered()[row] and not two.covered()[row]:
            assert merged.origins()[row] == one.origins()[row]
        if both and one.origins()[row] != two.origins()[row]:
            assert merged.origins()[row] == "merged"
    assert np.array_equal(merge([one], [2.0]).weights, one.normalised().weights)


def test_from_coo_adds_equal_pairs_and_sorts():
    mapping = TokenMapping.from_coo(
        np.array([1, 0, 1, 1]), np.array([2, 1, 0, 2]), np.array([1.0, 5.0, 2.0, 1.0]), (3, 3)
    )
    assert mapping.indptr.tolist() == [0, 1, 3, 3]
    assert mapping.source_ids.tolist() == [1, 0, 2]
    assert mapping.weights.tolist() == [1.0, 0.5, 0.5]
    assert mapping.covered().tolist() == [True, True, False]


def test_entries_are_written_best_first():
    mapping = TokenMapping.from_coo(np.zeros(3, int), np.array([0, 1, 2]), np.array([1.0, 2.0, 1.0]), (1, 3))
    assert entries_table(mapping)["source_id"].to_pylist() == [1, 0, 2]


@pytest.mark.parametrize(
    ("target", "source", "weight", "message"),
    [
        ([3], [0], [1.0], r"target ids must be 0 to 2, got 3 to 3"),
        ([-1], [0], [1.0], r"target ids must be 0 to 2, got -1"),
        ([0], [2], [1.0], r"source ids must be 0 to 1, got 2 to 2"),
        ([0], [0], [float("nan")], r"weights must be finite"),
        ([0], [0], [float("inf")], r"weights must be finite"),
        ([0], [0], [-1.0], r"must not be negative, the least is -1"),
        ([0, 1], [0], [1.0], r"differ in shape"),
    ],
)
def test_bad_entries(target, source, weight, message):
    with pytest.raises(ValueError, match=message):
        TokenMapping.from_coo(np.array(target), np.array(source), np.array(weight), (3, 2))


def test_bad_rows():
    with pytest.raises(ValueError, match=r"rows must sum to 1, one is 0.5 off"):
        TokenMapping(np.array([0, 1]), np.array([0], np.int32), np.array([0.5]), 1, np.zeros(1, np.uint8), ("a",))
    with pytest.raises(ValueError, match="origin 1 has no name"):
        TokenMapping(np.array([0, 1]), np.array([0], np.int32), np.array([1.0]), 1, np.ones(1, np.uint8), ("a",))
    with pytest.raises(ValueError, match="mappings of one shape"):
        merge([], [])


def test_a_single_source_is_copied_bit_for_bit_and_the_type_is_kept():
    table = torch.randn(4, 3).to(torch.bfloat16)
    mapping = TokenMapping.from_coo(np.array([0, 1]), np.array([3, 1]), np.array([5.0, 1.0]), (3, 4))
    found = mapping.apply(table)
    assert found.dtype == torch.bfloat16
    assert torch.equal(found[:2], table[[3, 1]])
    assert torch.equal(found[2], torch.zeros(3, dtype=torch.bfloat16))
    assert torch.equal(mapping.apply(table[:, 0]), found[:, 0])
    with pytest.raises(ValueError, match="reads row 3, the table has 3 rows"):
        mapping.apply(table[:3])


def test_take_repeats_and_reorders():
    rows = SparseRows.from_coo(np.array([0, 2, 2]), np.array([1, 0, 1]), np.array([1.0, 2.0, 3.0]), 3)
    taken = rows.take(np.array([2, 1, 2, 0]))
    assert taken.indptr.tolist() == [0, 2, 2, 4, 5]
    assert taken.weights.tolist() == [2.0, 3.0, 2.0, 3.0, 1.0]
