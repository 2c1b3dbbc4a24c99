"""The two kinds of adapter by themselves, where they start, and what they cost."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.embeddings.sparse_rows import SparseRows
from tasks.training import adapter_dense
from tasks.training.adapter_cost import AdapterSizes, dense_cost, plain_cost, sparse_cost
from tasks.training.adapter_dense import DenseAdapter
from tasks.training.adapter_sparse import SparseAdapter, weighted_sums
from tasks.training.adapter_support import dense_start, nearest, union, with_drawn_rows
from tasks.training.lm_head import LMHead


def rows_of(*rows: dict[int, float]) -> SparseRows:
    triples = [(row, column, weight) for row, entries in enumerate(rows) for column, weight in entries.items()]
    row, column, weight = (np.array(values) for values in zip(*triples, strict=True))
    return SparseRows.from_coo(row, column, weight, len(rows))


def dense_of(rows: SparseRows, columns: int) -> np.ndarray:
    matrix = np.zeros((len(rows), columns))
    for row in range(len(rows)):
        for entry in range(rows.indptr[row], rows.indptr[row + 1]):
            matrix[row, rows.ids[entry]] += rows.weights[entry]
    return matrix


START = rows_of({2: 1.0}, {0: 0.25, 3: 0.75}, {}, {1: 0.5, 2: 0.5})
TABLE = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 3.0], [-1.0, 1.0], [9.0, 9.0]])


def test_products_by_hand():
    """Row 1 is 0.25·(1, 0) + 0.75·(-1, 1); the table's fifth row is beyond the source vocabulary."""
    adapter = SparseAdapter(START, 4)
    wanted = torch.tensor([[3.0, 3.0], [-0.5, 0.75], [0.0, 0.0], [1.5, 2.5]])
    assert torch.equal(adapter.product(TABLE), wanted)
    assert torch.equal(adapter.rows(torch.tensor([3, 1, 2, 3]), TABLE), wanted[[3, 1, 2, 3]])
    assert torch.equal(adapter.rows(torch.tensor([], dtype=torch.int64), TABLE), torch.zeros(0, 2))
    assert torch.equal(adapter.product(TABLE[:, 1]), wanted[:, 1])
    dense = DenseAdapter(START, 4, seed=1)
    assert torch.equal(dense.product(TABLE)[[0, 1, 3]], wanted[[0, 1, 3]])
    assert torch.equal(dense.rows(torch.tensor([3, 1]), TABLE), wanted[[3, 1]])


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_any_support(data):
    target, source, width = (data.draw(st.integers(1, 6)) for _ in range(3))
    filled = np.array(data.draw(st.lists(st.booleans(), min_size=target * source, max_size=target * source)))
    row, column = (index.ravel()[filled] for index in np.indices((target, source)))
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    rows = SparseRows.from_coo(row, column, rng.normal(size=len(row)), target)
    ids = torch.tensor(data.draw(st.lists(st.integers(0, target - 1), max_size=8)), dtype=torch.int64)
    table = torch.from_numpy(rng.normal(size=(source, width)))
    adapter, matrix = SparseAdapter(rows, source).double(), torch.from_numpy(dense_of(rows, source)).float().double()
    torch.testing.assert_close(adapter.product(table), matrix @ table)
    torch.testing.assert_close(adapter.rows(ids, table), (matrix @ table)[ids])


def test_gradients_of_products():
    adapter, table = SparseAdapter(START, 4).double(), TABLE.double()
    values = torch.from_numpy(START.weights).requires_grad_()
    arguments = (adapter.source_ids, adapter.offsets, table)
    assert torch.autograd.gradcheck(lambda values: weighted_sums(values, *arguments), (values,))
    frozen = table.clone().requires_grad_()
    weighted_sums(values, adapter.source_ids, adapter.offsets, frozen).sum().backward()
    assert frozen.grad is None


def test_half_precision_products():
    table = torch.randn(4, 1300, generator=torch.Generator().manual_seed(0)).bfloat16()
    adapter = SparseAdapter(START, 4)
    result = adapter.product(table)
    assert result.dtype == torch.bfloat16
    exact = adapter.product(table.float())
    assert torch.equal(result, exact.bfloat16())
    slope = torch.randn(result.shape, generator=torch.Generator().manual_seed(1)).bfloat16()
    result.backward(slope)
    found = adapter.values.grad.clone()
    adapter.values.grad = None
    exact.backward(slope.float())
    torch.testing.assert_close(found, adapter.values.grad, rtol=1e-5, atol=1e-4)
    with torch.no_grad():
        assert torch.equal(adapter.product(table), result)


def test_distance_by_hand():
    """Shared rows 0 and 3: row 0 moved by 3, row 3 by (3, -4); the mean of 3 and 5 is 4."""
    shared = np.array([3, 0, 3])
    sparse, dense = SparseAdapter(START, 4, shared), DenseAdapter(START, 4, shared)
    for adapter in (sparse, dense):
        assert adapter.distance() == 0
        adapter.distance().backward()
        (parameter,) = adapter.parameters()
        assert not parameter.grad.any()
        parameter.grad = None
    with torch.no_grad():
        sparse.values[torch.tensor([0, 3, 4])] += torch.tensor([3.0, 3.0, -4.0])
        dense.matrix[[0, 3, 3], [2, 1, 2]] += torch.tensor([3.0, 3.0, -4.0])
        sparse.values[1] = dense.matrix[1, 0] = 8.0  # a row that is not shared
    for adapter in (sparse, dense):
        assert adapter.distance().item() == pytest.approx(4)
        adapter.distance().backward()
    assert sparse.values.grad.tolist() == pytest.approx([0.5, 0, 0, 0.3, -0.4])
    assert dense.matrix.grad[[0, 3, 3], [2, 1, 2]].tolist() == pytest.approx([0.5, 0.3, -0.4])
    assert dense.matrix.grad.abs().sum().item() == pytest.approx(1.2)
    assert SparseAdapter(START, 4).distance() == DenseAdapter(START, 4).distance() == 0


def test_distance_in_blocks(monkeypatch):
    rng = np.random.default_rng(0)
    start = SparseRows.from_coo(np.arange(11), rng.integers(0, 5, 11), np.ones(11), 11)
    shared = np.array([0, 2, 3, 4, 6, 7, 10])
    figures = []
    for block in (1, 3, 7, 100):
        monkeypatch.setattr(adapter_dense, "_ROWS", block)
        adapter = DenseAdapter(start, 5, shared).double()
        with torch.no_grad():
            adapter.matrix += torch.from_numpy(rng.normal(size=(11, 5)) if not figures else figures[0][2])
        adapter.distance().backward()
        moved = adapter.matrix.detach().numpy() - dense_of(start, 5)
        assert adapter.distance().item() == pytest.approx(np.linalg.norm(moved[shared], axis=1).mean())
        figures.append((adapter.distance().item(), adapter.matrix.grad, torch.from_numpy(moved).numpy()))
        torch.testing.assert_close(adapter.matrix.grad, figures[0][1])
    matrix = adapter.matrix.detach().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda matrix: adapter_dense._Distance.apply(
            matrix, adapter.shared_ids, adapter.start_rows, adapter.start_ids, adapter.start_weights
        ),
        (matrix,),
    )


@pytest.mark.parametrize("tokens", [1, 4, 100])
@pytest.mark.parametrize("softcap", [None, 0.7])
def test_dense_loss_in_blocks(monkeypatch, tokens, softcap):
    """Against autograd on the whole logits, in float64, with bias, scale, capping and ignored labels."""
    monkeypatch.setattr(adapter_dense, "_TOKENS", tokens)
    generator = torch.Generator().manual_seed(2)
    hidden, weight, bias = (torch.randn(*shape, generator=generator).double() for shape in ((9, 3), (6, 3), (6,)))
    adapter = DenseAdapter(START, 4, seed=3).double()
    old = LMHead(weight, bias, 1.7, softcap)
    labels = torch.tensor([0, 3, -100, 1, 2, 2, -100, 0, 1])
    hidden.requires_grad_()
    loss = adapter.summed_loss(hidden, labels, old)
    (0.5 * loss).backward()
    found = hidden.grad, adapter.matrix.grad
    hidden.grad = adapter.matrix.grad = None
    raw = 1.7 * (hidden @ weight[:4].T + bias[:4]) @ adapter.matrix.T
    logits = raw if softcap is None else softcap * torch.tanh(raw / softcap)
    each = torch.nn.functional.cross_entropy(logits, labels, reduction="none")
    torch.testing.assert_close(loss, each.sum())
    torch.testing.assert_close(adapter.token_losses(hidden, labels, old), each.detach())
    (0.5 * each.sum()).backward()
    torch.testing.assert_close(found, (hidden.grad, adapter.matrix.grad))
    torch.testing.assert_close(adapter.logits(hidden, old), logits)


def test_dense_loss_once_only():
    adapter = DenseAdapter(START, 4)
    old = LMHead(TABLE[:4], None, 1.0, None)
    loss = adapter.summed_loss(torch.ones(2, 2), torch.tensor([0, 1]), old)
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="one backward pass only"):
        loss.backward()
    with torch.no_grad():
        assert not adapter.summed_loss(torch.ones(2, 2), torch.tensor([0, 1]), old).requires_grad
    frozen = adapter.requires_grad_(False)
    hidden = torch.ones(2, 2, requires_grad=True)
    frozen.summed_loss(hidden, torch.tensor([0, 1]), old).backward()
    assert hidden.grad.any()
    assert adapter.matrix.grad is not None  # of the first pass


def test_union():
    other = rows_of({1: 7.0, 2: 7.0}, {3: 7.0}, {0: 7.0}, {})
    joined = union(START, other, other)
    assert joined.ids.tolist() == [1, 2, 0, 3, 0, 1, 2]
    assert joined.weights.tolist() == [0, 1, 0.25, 0.75, 0, 0.5, 0.5]
    assert union(START).weights.tolist() == START.weights.tolist()
    with pytest.raises(ValueError, match=r"supports of \[3\] rows do not fit a start of 4 rows"):
        union(START, rows_of({0: 1.0}, {}, {1: 1.0}))


def test_nearest_by_cosine():
    """Length counts for nothing: (5, 5) is nearest to (3, 3) and then, by angle, to (0, 2) or (1, 0)."""
    found = nearest(torch.tensor([[5.0, 5.0], [-2.0, 2.5], [0.1, 0.0]]), TABLE[:4], 2, block=2)
    assert found.indptr.tolist() == [0, 2, 4, 6]
    assert found.ids[2:].tolist() == [1, 3, 0, 2]
    assert 2 in found.ids[:2].tolist()
    assert not found.weights.any()
    found.check(4)


def test_drawn_rows():
    filled = with_drawn_rows(START, 4, 3, seed=5)
    assert filled.sums().tolist() == pytest.approx([1, 1, 1, 1])
    assert 1 <= filled.counts()[2] <= 3
    assert filled.take(np.array([0, 1, 3])).ids.tolist() == START.take(np.array([0, 1, 3])).ids.tolist()
    again = with_drawn_rows(START, 4, 3, seed=5)
    assert again.weights.tolist() == filled.weights.tolist()
    assert with_drawn_rows(START, 4, 3, seed=6).weights.tolist() != filled.weights.tolist()


def test_dense_start_is_the_paper_s():
    """One-hot, 1/m, and u / Σu over the whole source vocabulary for the row without entries."""
    matrix = dense_start(START, 4, seed=1)
    assert matrix.dtype == torch.float32
    assert matrix[[0, 1, 3]].tolist() == dense_of(START, 4)[[0, 1, 3]].tolist()
    assert matrix[2].sum().item() == pytest.approx(1)
    assert (matrix[2] > 0).all()
    assert torch.equal(matrix, dense_start(START, 4, seed=1))
    with pytest.raises(ValueError, match="source ids must be 0 to 2"):
        dense_start(START, 3, seed=1)


def test_refusals():
    for kind in (SparseAdapter, DenseAdapter):
        with pytest.raises(ValueError, match="source ids must be 0 to 2, got 0 to 3"):
            kind(START, 3)
        with pytest.raises(ValueError, match="shared ids must be 0 to 3, got 4 to 4"):
            kind(START, 4, shared=np.array([4]))
    with pytest.raises(ValueError, match="shared token 2 has no entry"):
        DenseAdapter(START, 4, shared=np.array([0, 2]))


MISTRAL = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336)  # attention and feed-forward matrices


def test_cost_is_the_paper_s():
    """Han et al. 2025, appendix D: 14.2 GFLOP a token for Mistral-7B, 17.7 with 50k adapters."""
    original = AdapterSizes(target=32_000, source=32_000, width=4096, body=MISTRAL)
    adapted = AdapterSizes(50_000, 32_000, 4096, MISTRAL, 150_000, 150_000, step_tokens=4096)
    assert round(plain_cost(original).forward / 1e9, 1) == 14.2
    assert round(dense_cost(adapted).forward / 1e9, 1) == 17.7
    parts = [2 * MISTRAL, 2 * 32_000 * 4096, 2 * 32_000 * 4096, 2 * 50_000 * 32_000]
    assert [round(part / 1e9, 2) for part in parts] == [13.96, 0.26, 0.26, 3.2]
    assert dense_cost(adapted).forward == sum(parts)
    assert sparse_cost(adapted).total < 1.001 * plain_cost(adapted).total
    assert plain_cost(adapted).total == 4 * MISTRAL + 6 * 50_000 * 4096
    assert dense_cost(adapted).total == 2 * sum(parts) + 2 * 50_000 * 32_000
