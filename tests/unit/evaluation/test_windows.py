import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tasks.evaluation.batches import batches, padded
from tasks.evaluation.windows import Window, cut, unscored_tokens


def test_short_text_is_one_window_after_the_prefix():
    assert cut(3, [7, 8, 9], prefix=1, window=8) == [Window(3, (1, 7, 8, 9))]


def test_long_text_starts_every_window_with_the_prefix():
    windows = cut(0, list(range(10, 17)), prefix=1, window=4)
    assert [window.ids for window in windows] == [(1, 10, 11, 12), (1, 13, 14, 15), (1, 16)]


def test_without_prefix_the_first_token_of_each_window_is_unscored():
    windows = cut(0, list(range(10, 17)), prefix=None, window=4)
    assert [window.ids for window in windows] == [(10, 11, 12, 13), (14, 15, 16)]
    assert unscored_tokens(windows, None) == 2
    assert sum(window.scored for window in windows) == 5


def test_text_without_tokens_has_no_window():
    assert cut(0, [], prefix=1, window=4) == []


def test_a_window_of_one_token_is_refused():
    with pytest.raises(ValueError, match="at least 2 tokens, got 1"):
        cut(0, [5], prefix=1, window=1)


@given(st.lists(st.integers(10, 99), max_size=60), st.sampled_from([None, 1]), st.integers(2, 20))
def test_windows_hold_every_token_once_and_in_order(ids, prefix, window):
    windows = cut(0, ids, prefix, window)
    skip = 0 if prefix is None else 1
    assert [token for part in windows for token in part.ids[skip:]] == ids
    assert all(len(part.ids) <= window for part in windows)
    assert sum(part.scored for part in windows) + unscored_tokens(windows, prefix) == len(ids)


@given(st.lists(st.integers(1, 9), max_size=30), st.integers(1, 7))
def test_batches_hold_every_window_once_longest_first(lengths, batch_size):
    windows = [Window(number, (0,) * length) for number, length in enumerate(lengths)]
    order = [number for batch in batches(windows, batch_size) for number in batch]
    assert sorted(order) == list(range(len(windows)))
    assert order == sorted(order, key=lambda number: (-lengths[number], number))


def test_padding_is_at_the_right():
    ids, mask = padded([Window(0, (1, 5)), Window(1, (1, 6, 7, 8))])
    assert torch.equal(ids, torch.tensor([[1, 5, 0, 0], [1, 6, 7, 8]]))
    assert torch.equal(mask, torch.tensor([[True, True, False, False], [True] * 4]))
