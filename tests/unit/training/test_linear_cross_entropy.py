import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from tasks.training import linear_cross_entropy as module
from tasks.training.linear_cross_entropy import IGNORED, linear_cross_entropy, token_losses


def plain(hidden, weight, labels, bias=None, scale=1.0, softcap=None, reduction="sum"):
    logits = functional.linear(hidden, weight, bias) * scale
    if softcap is not None:
        logits = softcap * torch.tanh(logits / softcap)
    return functional.cross_entropy(
        logits.float() if logits.dtype != torch.float64 else logits, labels, reduction=reduction
    )


def inputs(tokens=13, width=6, vocabulary=17, dtype=torch.float64, seed=0, spread=1.0):
    draw = torch.Generator().manual_seed(seed)
    hidden = (torch.randn(tokens, width, generator=draw, dtype=dtype) * spread).requires_grad_()
    weight = torch.randn(vocabulary, width, generator=draw, dtype=dtype).requires_grad_()
    bias = torch.randn(vocabulary, generator=draw, dtype=dtype).requires_grad_()
    labels = torch.randint(vocabulary, (tokens,), generator=draw)
    labels[torch.rand(tokens, generator=draw) < 0.3] = IGNORED
    return hidden, weight, bias, labels


def test_by_hand():
    """Logits log 1, log 2, log 5: probabilities 1/8, 2/8, 5/8."""
    weight = torch.tensor([[1.0], [2.0], [5.0]]).log().requires_grad_()
    hidden = torch.ones(2, 1, requires_grad=True)
    loss = linear_cross_entropy(hidden, weight, torch.tensor([2, 0]))
    assert loss.item() == pytest.approx(math.log(8 / 5) + math.log(8))
    loss.backward()
    # gradient in the logits: (1/8, 2/8, -3/8) and (-7/8, 2/8, 5/8)
    assert weight.grad.flatten().tolist() == pytest.approx([-6 / 8, 4 / 8, 2 / 8])
    inner = [2 / 8 * math.log(2) - 3 / 8 * math.log(5), 2 / 8 * math.log(2) + 5 / 8 * math.log(5)]
    assert hidden.grad.flatten().tolist() == pytest.approx(inner)


CASES = [
    pytest.param(False, 1.0, None, id="plain"),
    pytest.param(True, 1.0, None, id="bias"),
    pytest.param(False, 0.0625, None, id="scale"),
    pytest.param(False, 1.0, 3.0, id="softcap"),
    pytest.param(True, 0.5, 2.0, id="all"),
]


@pytest.mark.parametrize("chunk", [1, 4, 100, None])
@pytest.mark.parametrize(("with_bias", "scale", "softcap"), CASES)
def test_equals_the_obvious_way(monkeypatch, with_bias, scale, softcap, chunk):
    monkeypatch.setitem(module.SOFTMAX_LOGITS, "cpu", 40)  # two rows of 17
    hidden, weight, bias, labels = inputs()
    wanted = (hidden, weight, bias) if with_bias else (hidden, weight)
    keywords = {"bias": bias if with_bias else None, "scale": scale, "softcap": softcap}
    expected = plain(hidden, weight, labels, **keywords)
    found = linear_cross_entropy(hidden, weight, labels, chunk=chunk, **keywords)
    torch.testing.assert_close(found, expected)
    for ours, theirs in zip(
        torch.autograd.grad(3 * found, wanted), torch.autograd.grad(3 * expected, wanted), strict=True
    ):
        torch.testing.assert_close(ours, theirs)
    each = token_losses(hidden, weight, labels, chunk=chunk, **keywords)
    torch.testing.assert_close(each, plain(hidden, weight, labels, reduction="none", **keywords).detach())
    assert torch.equal(each == 0, labels == IGNORED)


@pytest.mark.parametrize(("with_bias", "scale", "softcap"), CASES)
def test_gradcheck(with_bias, scale, softcap):
    hidden, weight, bias, labels = inputs(tokens=5, width=3, vocabulary=4)
    wanted = (hidden, weight, bias) if with_bias else (hidden, weight)

    def loss(hidden, weight, bias=None):
        return linear_cross_entropy(hidden, weight, labels, bias=bias, scale=scale, softcap=softcap, chunk=2)

    assert torch.autograd.gradcheck(loss, wanted)


@settings(max_examples=30, deadline=None)
@given(
    tokens=st.integers(0, 9),
    vocabulary=st.integers(1, 9),
    chunk=st.integers(1, 10),
    seed=st.integers(0, 1000),
    spread=st.sampled_from([0.1, 1.0, 100.0, 1e4]),
)
def test_any_size(tokens, vocabulary, chunk, seed, spread):
    hidden, weight, _, labels = inputs(tokens, 2, vocabulary, torch.float32, seed, spread)
    expected, found = plain(hidden, weight, labels), linear_cross_entropy(hidden, weight, labels, chunk=chunk)
    torch.testing.assert_close(found, expected)
    theirs, ours = (torch.autograd.grad(loss, (hidden, weight)) for loss in (expected, found))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5 * max(1.0, spread))


@pytest.mark.parametrize("frozen", ["hidden", "weight", "bias"])
def test_no_gradient_that_nobody_wants(frozen):
    hidden, weight, bias, labels = inputs()
    tensors = {"hidden": hidden, "weight": weight, "bias": bias}
    tensors[frozen].requires_grad_(False)
    loss = linear_cross_entropy(hidden, weight, labels, bias=bias)
    held = dict(zip(tensors, loss.grad_fn.gradients, strict=True))
    assert {name for name, tensor in held.items() if tensor is None} == {frozen}
    loss.backward()
    assert {name for name, tensor in tensors.items() if tensor.grad is None} == {frozen}


def test_without_gradients():
    hidden, weight, _, labels = inputs()
    expected = linear_cross_entropy(hidden, weight, labels)
    with torch.no_grad():
        loss = linear_cross_entropy(hidden, weight, labels)
    assert loss.grad_fn is None
    assert torch.equal(loss, expected)
    assert torch.equal(loss, token_losses(hidden, weight, labels).sum())
    assert linear_cross_entropy(hidden.detach(), weight.detach(), labels).grad_fn is None


def test_nothing_to_predict():
    hidden, weight, _, labels = inputs()
    loss = linear_cross_entropy(hidden, weight, torch.full_like(labels, IGNORED))
    loss.backward()
    assert loss == 0
    assert not hidden.grad.any()
    assert not weight.grad.any()


def test_ignored_hidden_states_do_not_matter():
    hidden, weight, _, labels = inputs()
    spoilt = hidden.detach().clone()
    spoilt[labels == IGNORED] = math.nan
    assert torch.equal(linear_cross_entropy(spoilt, weight, labels), linear_cross_entropy(hidden, weight, labels))


def test_masked_as_on_a_gpu(monkeypatch):
    """There ignored tokens stay in the blocks."""

    def all_tokens(labels, chunk):
        return [
            (slice(start, start + chunk), min(chunk, len(labels) - start)) for start in range(0, len(labels), chunk)
        ]

    hidden, weight, _, labels = inputs()
    expected = linear_cross_entropy(hidden, weight, labels)
    monkeypatch.setattr(module, "_blocks", all_tokens)
    found = linear_cross_entropy(hidden, weight, labels, chunk=4)
    torch.testing.assert_close(found, expected)
    for one, other in zip(*(torch.autograd.grad(x, (hidden, weight)) for x in (found, expected)), strict=True):
        torch.testing.assert_close(one, other)


def test_weight_used_twice_and_accumulated():
    """Tied embeddings, two heads of one matrix, and two micro batches, against the obvious way."""
    _, weight, _, labels = inputs(tokens=8, vocabulary=17)
    ids = torch.arange(8) * 2
    gradients = []
    for loss_of in (plain, linear_cross_entropy):
        weight.grad = None
        for half in (slice(0, 4), slice(4, 8)):
            hidden = functional.embedding(ids[half], weight).tanh()
            later = loss_of(hidden, weight, labels.roll(1)[half])
            (loss_of(hidden, weight, labels[half]) / 3 + later / 7).backward()
        gradients.append(weight.grad)
    torch.testing.assert_close(gradients[1], gradients[0])


def test_backward_twice():
    hidden, weight, _, labels = inputs()
    loss = linear_cross_entropy(hidden, weight, labels)
    (2 * loss).backward(retain_graph=True)
    once = weight.grad.clone()
    loss.backward()
    torch.testing.assert_close(weight.grad, 1.5 * once)
    with pytest.raises(RuntimeError, match="used up: call backward with retain_graph=True"):
        loss.backward()


def test_gradients_are_handed_over_not_copied():
    hidden, weight, _, labels = inputs()
    loss = linear_cross_entropy(hidden, weight, labels)
    places = [tensor.data_ptr() for tensor in loss.grad_fn.gradients[:2]]
    (loss / 5).backward()
    assert [hidden.grad.data_ptr(), weight.grad.data_ptr()] == places


def test_autocast():
    hidden, weight, bias, labels = inputs(tokens=200, width=32, vocabulary=64, dtype=torch.float32, spread=0.5)
    exact = plain(hidden, weight, labels, bias)
    wanted = torch.autograd.grad(exact, (hidden, weight, bias))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        usual = plain(hidden, weight, labels, bias)
        found = linear_cross_entropy(hidden, weight, labels, bias=bias, chunk=64)
    rounded = [tensor.detach().bfloat16() for tensor in (hidden, weight)]
    assert torch.equal(found, linear_cross_entropy(*rounded, labels, bias=bias.detach(), chunk=64))
    assert (found.dtype, found.item()) == (torch.float32, pytest.approx(exact.item(), rel=2e-3))
    ours, theirs = (torch.autograd.grad(loss, (hidden, weight, bias)) for loss in (found, usual))
    for one, other, right in zip(ours, theirs, wanted, strict=True):
        assert one.dtype == torch.float32
        assert relative(one, right) < 0.01
        assert relative(one, right) < 1.3 * relative(other, right)


def relative(found, right):
    return ((found - right).norm() / right.norm()).item()


def test_bfloat16_weights():
    hidden, weight, _, labels = inputs(tokens=50, width=32, vocabulary=64, dtype=torch.float32)
    rounded = [tensor.detach().bfloat16().requires_grad_() for tensor in (hidden, weight)]
    loss = linear_cross_entropy(*rounded, labels)
    exact = plain(*(tensor.float() for tensor in rounded), labels)
    assert (loss.dtype, loss.item()) == (torch.float32, pytest.approx(exact.item(), rel=1e-2))
    for one, other in zip(torch.autograd.grad(loss, rounded), torch.autograd.grad(exact, rounded), strict=True):
        assert one.dtype == torch.bfloat16
        assert relative(one.float(), other.float()) < 0.01


def test_blocks_are_summed_in_float32():
    """Products of 300 blocks of one token each; summed in bfloat16, most of the later ones would be lost."""
    hidden, weight, _, labels = inputs(tokens=300, width=8, vocabulary=4, dtype=torch.float32)
    rounded = [(tensor.detach().abs() + 1).bfloat16().requires_grad_() for tensor in (hidden, weight)]
    loss = linear_cross_entropy(*rounded, labels, chunk=1)
    exact = plain(*(tensor.float() for tensor in rounded), labels)
    (ours,), (theirs,) = (torch.autograd.grad(value, rounded[1]) for value in (loss, exact))
    assert relative(ours.float(), theirs.float()) < 0.01


def test_same_bits_again():
    hidden, weight, bias, labels = inputs(dtype=torch.float32)
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        results = []
        for _ in range(2):
            loss = linear_cross_entropy(hidden, weight, labels, bias=bias, chunk=4)
            results.append((loss, *torch.autograd.grad(loss, (hidden, weight, bias))))
    finally:
        torch.use_deterministic_algorithms(False)
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)


def test_one_block_of_logits_at_a_time(monkeypatch):
    sizes = []
    original = torch.mm
    monkeypatch.setattr(torch, "mm", lambda *args, out: sizes.append(tuple(out.shape)) or original(*args, out=out))
    hidden, weight, _, labels = inputs(tokens=13)
    linear_cross_entropy(hidden, weight, labels.abs() % 17, chunk=4).backward()
    assert sizes == [(4, 17), (4, 17), (4, 17), (1, 17)]


def test_blocks_are_nearly_equal():
    counts = [count for _, count in module._blocks(torch.zeros(1030, dtype=torch.int64), 1024)]
    assert counts == [515, 515]


@pytest.mark.parametrize(
    ("hidden", "weight", "labels", "chunk", "message"),
    [
        ((3, 4), (5, 3), (3,), None, r"not \[3, 4\], \[5, 3\] and \[3\]"),
        ((1, 3, 4), (5, 4), (3,), None, r"hidden \[N, d\]"),
        ((3, 4), (5, 4), (2,), None, r"labels \[N\]"),
        ((3, 4), (5, 4), (3,), 0, "chunk is 0"),
    ],
)
def test_wrong_shapes(hidden, weight, labels, chunk, message):
    with pytest.raises(ValueError, match=message):
        linear_cross_entropy(
            torch.zeros(hidden), torch.zeros(weight), torch.zeros(labels, dtype=torch.int64), chunk=chunk
        )
