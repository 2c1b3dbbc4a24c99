import math

import pytest
import torch

from tasks.evaluation.nll import sentence_nll


def slow_nll(logits, ids, mask):
    """Per sentence and token, in plain Python floats."""
    sums = []
    for row in range(len(ids)):
        total = 0.0
        for t in range(1, len(ids[row])):
            if mask[row][t]:
                scores = [float(x) for x in logits[row][t - 1]]
                total += math.log(sum(math.exp(x) for x in scores)) - scores[int(ids[row][t])]
        sums.append(total)
    return sums


def test_equals_the_slow_sum():
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(3, 6, 11, generator=generator) * 3
    ids = torch.randint(0, 11, (3, 6), generator=generator)
    mask = torch.arange(6).unsqueeze(0) < torch.tensor([6, 4, 1]).unsqueeze(1)
    result = sentence_nll(logits, ids, mask)
    assert result.dtype == torch.float64
    assert result.tolist() == pytest.approx(slow_nll(logits, ids, mask), rel=1e-6)
    assert result[2] == 0.0


def test_uniform_logits_cost_log_of_the_vocabulary_a_token():
    result = sentence_nll(torch.zeros(2, 5, 8), torch.ones(2, 5, dtype=torch.int64), torch.ones(2, 5, dtype=torch.bool))
    assert result.tolist() == pytest.approx([4 * math.log(8)] * 2)


def test_padding_gets_no_loss_whatever_its_logits():
    logits = torch.zeros(1, 4, 8)
    logits[0, 1:] = float("nan")
    mask = torch.tensor([[True, True, False, False]])
    assert sentence_nll(logits, torch.zeros(1, 4, dtype=torch.int64), mask).tolist() == pytest.approx([math.log(8)])


def test_bfloat16_logits_are_widened():
    logits = torch.zeros(1, 3, 5, dtype=torch.bfloat16)
    result = sentence_nll(logits, torch.zeros(1, 3, dtype=torch.int64), torch.ones(1, 3, dtype=torch.bool))
    assert result.tolist() == pytest.approx([2 * math.log(5)], rel=1e-6)
