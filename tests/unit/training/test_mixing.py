import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.contract import InputError
from tasks.training.mixing import MixedText, Mixture, temperature_shares
from tasks.training.order import batch_indices
from tasks.training.packing import PackedText

mixtures = st.lists(st.tuples(st.integers(1, 50), st.floats(0.01, 1)), min_size=1, max_size=6)


def make_mixture(texts, seed=1):
    rows, shares = zip(*texts, strict=True)
    return Mixture(rows, shares, seed)


def test_temperature_by_hand():
    """T = 2: roots of 1, 4 and 9 over their sum, in what English leaves."""
    shares = temperature_shares({"a": 1, "en": 77, "b": 4, "c": 9}, 2, {"en": 0.25})
    assert list(shares) == ["a", "en", "b", "c"]
    assert list(shares.values()) == pytest.approx([0.125, 0.25, 0.25, 0.375])
    assert temperature_shares({"a": 10**12, "b": 3 * 10**12}, 1) == pytest.approx({"a": 0.25, "b": 0.75})
    assert temperature_shares({"a": 1, "b": 100}, 1e9) == pytest.approx({"a": 0.5, "b": 0.5})
    assert temperature_shares({"a": 1, "b": 100}, 1e-3) == pytest.approx({"a": 0, "b": 1})
    assert temperature_shares({"target": 5, "source": 5}, 1, {"source": 0.25}) == {"target": 0.75, "source": 0.25}
    assert temperature_shares({"a": 5, "b": 5}, 1, {"a": 0.25, "b": 0.75}) == {"a": 0.25, "b": 0.75}


@pytest.mark.parametrize(
    ("sizes", "temperature", "fixed", "message"),
    [
        ({"a": 1}, 1, {"b": 0.5}, r"fixed for \['b'\], but the texts are \['a'\]"),
        ({"a": 1}, 0, None, "temperature is 0"),
        ({"a": 1, "b": 0}, 1, None, r"\['b'\] have no tokens"),
        ({"a": 1, "b": 1}, 1, {"a": 1.0}, "below 1, for the others"),
        ({"a": 1, "b": 1}, 1, {"a": -0.5}, "above 0"),
        ({"a": 1, "b": 1}, 1, {"a": 0.5, "b": 0.6}, "their sum 1, since no text"),
    ],
)
def test_shares_that_cannot_be(sizes, temperature, fixed, message):
    with pytest.raises(InputError, match=message):
        temperature_shares(sizes, temperature, fixed)


@pytest.mark.parametrize("shares", [(0.75, 0.25), (0.2, 0.31, 0.07, 0.42), (0.999, 0.001)])
def test_shares_of_draws(shares):
    mixture = Mixture([100] * len(shares), shares, seed=5)
    counts = np.bincount(mixture.draws(0, 10_000).texts, minlength=len(shares))
    np.testing.assert_allclose(counts / 10_000, shares, atol=3e-4)
    np.testing.assert_array_equal(counts, mixture.counts(10_000))


@settings(deadline=None)
@given(mixtures, st.integers(0, 300), st.integers(1, 60), st.integers(0, 9))
def test_any_piece_is_a_piece_of_the_whole(texts, first, count, seed):
    mixture = make_mixture(texts, seed)
    whole = mixture.draws(0, first + count)
    piece = make_mixture(texts, seed).draws(first, count)
    np.testing.assert_array_equal(piece.texts, whole.texts[first:])
    np.testing.assert_array_equal(piece.rows, whole.rows[first:])
    np.testing.assert_array_equal(mixture.counts(first), np.bincount(whole.texts[:first], minlength=len(texts)))


@settings(deadline=None)
@given(mixtures, st.integers(1, 400))
def test_counts_stay_close_to_shares(texts, draws):
    shares = np.array([share for _, share in texts])
    shares /= shares.sum()
    off = np.abs(make_mixture(texts).counts(draws) - shares * draws)
    assert (off <= 1 + len(texts) * shares + 1e-9).all()


@settings(deadline=None)
@given(mixtures)
def test_no_row_twice_in_a_pass(texts):
    draws = make_mixture(texts).draws(0, 500)
    for text, (rows, _) in enumerate(texts):
        drawn = draws.rows[draws.texts == text]
        for start in range(0, len(drawn), rows):
            one_pass = drawn[start : start + rows]
            assert len(set(one_pass)) == len(one_pass)
            assert one_pass.max() < rows


def test_far_draws_need_no_history():
    mixture = Mixture([1000, 70], [0.9, 0.1], seed=3)
    far = mixture.draws(10**10, 2000)
    np.testing.assert_array_equal(mixture.draws(10**10 + 1234, 1).rows, far.rows[1234:1235])
    assert np.bincount(far.texts).tolist() == (mixture.counts(10**10 + 2000) - mixture.counts(10**10)).tolist()
    assert np.bincount(far.texts) == pytest.approx([1800, 200], abs=2)


def test_one_text_is_drawn_as_without_a_mixture():
    mixture = Mixture([37], [1], seed=6)
    np.testing.assert_array_equal(mixture.draws(5 * 8, 8).rows, batch_indices(5, 8, 37, seed=6))


def test_seeds_differ():
    one, two = (Mixture([50, 50], [0.6, 0.4], seed).draws(0, 40) for seed in (1, 2))
    assert not np.array_equal(one.rows, two.rows)
    assert not np.array_equal(one.texts, two.texts)


@pytest.mark.parametrize(("rows", "shares"), [([], []), ([3], [0]), ([0, 1], [0.5, 0.5]), ([3, 3], [1])])
def test_mixtures_that_cannot_be(rows, shares):
    with pytest.raises(InputError, match="cannot be mixed"):
        Mixture(rows, shares, seed=1)


def text_of(rows, first, length=4):
    tokens = np.arange(rows * length, dtype=np.int32).reshape(rows, length) + first
    return PackedText(tokens, rows, tokens.size)


class HalfEmpty(PackedText):
    """Rows of which every other is half padding."""

    @property
    def tokens_in_rows(self):
        return int(self.filled(np.arange(len(self))).sum())

    def filled(self, rows):
        return np.where(rows % 2, self.length // 2, self.length)


def test_batches_of_mixed_rows():
    texts = {"one": text_of(10, 0), "two": text_of(6, 1000)}
    mixed = MixedText(texts, {"one": 3, "two": 1}, seed=2)
    batch, draws = mixed.read(5, 12), mixed.mixture.draws(5, 12)
    expected = [list(texts.values())[t].sequences[row].tolist() for t, row in zip(draws.texts, draws.rows, strict=True)]
    assert batch.tokens.tolist() == expected
    assert batch.documents[:, 0].tolist() == draws.rows.tolist()


def test_shares_are_shares_of_tokens():
    """Rows with less text are drawn more often, so that the tokens have the shares wanted."""
    half = HalfEmpty(text_of(11, 0).sequences, 11, 44)
    mixed = MixedText({"half": half, "full": text_of(20, 0)}, {"half": 0.25, "full": 0.75}, seed=2)
    seen = mixed.seen(10_000)
    assert [text.name for text in seen] == ["half", "full"]
    assert [text.share for text in seen] == pytest.approx([0.25, 0.75], abs=1e-3)
    assert [text.wanted for text in seen] == [0.25, 0.75]
    draws = mixed.mixture.draws(0, 10_000)
    assert seen[0].tokens == half.filled(draws.rows[draws.texts == 0]).sum()
    assert seen[1].tokens == 4 * np.count_nonzero(draws.texts == 1)
    assert seen[1].passes == np.count_nonzero(draws.texts == 1) / 20
    assert sum(text.tokens for text in mixed.seen(0)) == 0


def test_texts_that_do_not_go_together():
    with pytest.raises(InputError, match=r"texts \['a'\] and shares of \['b'\]"):
        MixedText({"a": text_of(2, 0)}, {"b": 1}, seed=1)
    with pytest.raises(InputError, match=r"different lengths \(\{'a': 4, 'b': 8\}\)"):
        MixedText({"a": text_of(2, 0), "b": text_of(2, 0, 8)}, {"a": 0.5, "b": 0.5}, seed=1)
