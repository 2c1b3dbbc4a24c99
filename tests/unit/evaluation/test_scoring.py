import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tasks.evaluation.scoring import score
from tasks.evaluation.windows import Window, cut


class Table:
    """A bigram model: the logits of a token are a row of a table."""

    device = torch.device("cpu")

    def __init__(self, table):
        self.table = table

    def __call__(self, input_ids, attention_mask, use_cache):
        return SimpleNamespace(logits=self.table[input_ids])


def test_bigram_table_by_hand():
    probabilities = torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8], [0.2, 0.7, 0.1]])
    losses = score(Table(probabilities.log()), [Window(0, (0, 1, 2)), Window(1, (0, 2, 1, 1))], batch_size=2)
    assert losses == pytest.approx([-math.log(0.25 * 0.8), -math.log(0.25 * 0.7 * 0.1)], rel=1e-6)


def test_padding_and_batch_size_do_not_change_the_losses(make_model):
    model = make_model()
    rng = np.random.default_rng(0)
    windows = [Window(n, (1, *rng.integers(3, 12, size=length).tolist())) for n, length in enumerate([5, 1, 9, 3, 30])]
    alone = score(model, windows, batch_size=1)
    for batch_size in (2, 5):
        assert score(model, windows, batch_size) == pytest.approx(alone, rel=1e-5)


def test_equals_one_sentence_at_a_time_with_log_softmax(make_model):
    model = make_model()
    ids = [4, 5, 6, 7, 8, 11, 3, 3, 9]
    expected = 0.0
    for window in ([1, 4, 5, 6, 7], [1, 8, 11, 3, 3], [1, 9]):
        with torch.no_grad():
            log_probabilities = model(torch.tensor([window])).logits.double().log_softmax(-1)
        expected -= sum(float(log_probabilities[0, t - 1, window[t]]) for t in range(1, len(window)))
    assert score(model, cut(0, ids, 1, 5), batch_size=8).sum() == pytest.approx(expected, rel=1e-6)


def test_progress_ends_at_the_total():
    calls = []
    score(
        Table(torch.zeros(3, 3)),
        [Window(0, (0, 1)), Window(1, (0, 1, 2))],
        batch_size=1,
        progress=lambda *call: calls.append(call),
    )
    assert calls == [(3, 5, "tokens"), (5, 5, "tokens")]
