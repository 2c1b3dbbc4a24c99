import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.embeddings.neighbours import nearest_neighbours
from tasks.embeddings.projection import principal_plane
from tasks.embeddings.similarity import choose_anchors, has_direction, relative_similarity


def rows(*values):
    return torch.tensor(values, dtype=torch.float32)


def same(count):
    return np.stack([np.arange(count), np.arange(count)], axis=1)


def test_relative_similarity_worked_by_hand():
    """Anchors 0 and 1. First table: descriptions (1, 0), (0, 1), (0.6, 0.8). Second: (1, 0.6), (0.6, 1), (0.6, 1)."""
    first = rows([1, 0], [0, 2], [3, 4])
    second = rows([5, 0], [3, 4], [6, 8])
    found = relative_similarity(first, second, same(3), np.array([0, 1]))
    cosines = [1 / 1.36**0.5, 1 / 1.36**0.5, (0.36 + 0.8) / 1.36**0.5]
    assert found.mean == pytest.approx(np.mean(cosines), abs=1e-6)
    assert found.deviation == pytest.approx(np.std(cosines), abs=1e-6)
    assert (found.tokens, found.anchors) == (3, 2)


def test_against_a_slow_implementation_with_other_dimensions_and_row_orders():
    rng = np.random.default_rng(1)
    first, second = rng.standard_normal((50, 7)), rng.standard_normal((60, 11))
    pairs = np.stack([rng.permutation(50)[:40], rng.permutation(60)[:40]], axis=1)
    anchors = np.sort(rng.permutation(40)[:9])

    def cosine(a, b):
        return float(a @ b / (a @ a) ** 0.5 / (b @ b) ** 0.5)

    expected = []
    for i, j in pairs:
        a = np.array([cosine(first[i], first[pairs[k, 0]]) for k in anchors])
        b = np.array([cosine(second[j], second[pairs[k, 1]]) for k in anchors])
        expected.append(cosine(a, b))
    found = relative_similarity(torch.from_numpy(first), torch.from_numpy(second), pairs, anchors)
    assert found.mean == pytest.approx(np.mean(expected), abs=1e-6)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 1000), st.floats(0.01, 100))
def test_a_turned_and_scaled_table_is_the_same(seed, scale):
    rng = np.random.default_rng(seed)
    table = rng.standard_normal((30, 5))
    turn, _ = np.linalg.qr(rng.standard_normal((5, 5)))
    found = relative_similarity(
        torch.from_numpy(table), torch.from_numpy(scale * table @ turn), same(30), np.arange(0, 30, 3)
    )
    assert found.mean == pytest.approx(1.0, abs=1e-5)


def test_rows_of_zeros_are_left_out_and_are_no_anchors():
    table = rows([1, 0], [0, 1], [0, 0], [1, 1], [float("nan"), 1])
    assert has_direction(table).tolist() == [True, True, False, True, False]
    assert relative_similarity(table, table, same(5), np.array([0, 1])).tokens == 3
    with pytest.raises(ValueError, match="row of zeros"):
        relative_similarity(table, table, same(5), np.array([0, 2]))
    with pytest.raises(ValueError, match="no anchor"):
        relative_similarity(table, table, same(5), np.array([], dtype=np.int64))


def test_anchors_are_of_both_kinds_and_depend_on_the_seed():
    starts = np.arange(100) % 2 == 0
    usable = np.arange(100) >= 10
    chosen = choose_anchors(starts, usable, 8, seed=3)
    assert chosen.min() >= 10
    assert len(set(chosen.tolist())) == 16
    assert starts[chosen].sum() == 8
    assert chosen.tolist() == choose_anchors(starts, usable, 8, seed=3).tolist()
    assert chosen.tolist() != choose_anchors(starts, usable, 8, seed=4).tolist()
    assert len(choose_anchors(starts, usable, 1000, seed=3)) == 90


def test_neighbours_against_all_cosines(monkeypatch):
    monkeypatch.setattr("tasks.embeddings.neighbours._ROWS", 4)
    monkeypatch.setattr("tasks.embeddings.neighbours._COLUMNS", 7)
    rng = np.random.default_rng(0)
    new, old = rng.standard_normal((10, 6)), rng.standard_normal((40, 6))
    ids, cosines = nearest_neighbours(torch.from_numpy(new), torch.from_numpy(old), 5)
    unit = [table / np.linalg.norm(table, axis=1, keepdims=True) for table in (new, old)]
    scores = unit[0] @ unit[1].T
    expected = np.argsort(-scores, axis=1)[:, :5]
    assert ids.tolist() == expected.tolist()
    np.testing.assert_allclose(cosines, np.take_along_axis(scores, expected, axis=1), atol=1e-6)


def test_of_equal_neighbours_the_first_id_comes_first_and_zeros_have_no_neighbour():
    ids, cosines = nearest_neighbours(rows([2, 0], [0, 0]), rows([0, 1], [1, 0], [3, 0]), 9)
    assert ids[0].tolist() == [1, 2, 0]
    assert cosines[0].tolist() == [1, 1, 0]
    assert cosines[1].tolist() == [0, 0, 0]


def test_of_many_equal_neighbours_the_first_ids_are_chosen(monkeypatch):
    """Rows of a vocabulary that were never trained are often all the same."""
    monkeypatch.setattr("tasks.embeddings.neighbours._COLUMNS", 100)
    old = torch.ones(250, 4)
    old[[30, 120]] = torch.tensor([1.0, 2, 3, 4])
    ids, _ = nearest_neighbours(torch.stack([old[30], old[0]]), old, 4)
    assert ids.tolist() == [[30, 120, 0, 1], [0, 1, 2, 3]]


@pytest.mark.parametrize("shape", [(30, 6), (6, 30), (2, 1), (1, 4)])
def test_the_plane_is_that_of_a_singular_value_decomposition(shape):
    table = np.random.default_rng(2).standard_normal(shape)
    coordinates, shares = principal_plane(table)
    u, s, _ = np.linalg.svd(table - table.mean(axis=0), full_matrices=False)
    expected = np.zeros((shape[0], 2))
    axes = min(2, len(s))
    expected[:, :axes] = (u * s)[:, :2]
    np.testing.assert_allclose(np.abs(coordinates), np.abs(expected), atol=1e-6)
    if s.sum() > 1e-9:
        np.testing.assert_allclose(shares[:axes], (s**2 / (s**2).sum())[:2], atol=1e-9)
        assert coordinates[np.abs(coordinates[:, 0]).argmax(), 0] > 0
