import math

import pytest

from tasks.training.course import learning_rate
from tasks.training.schedule import LearningRate


def test_linear_by_hand():
    rate = LearningRate(peak=8.0, schedule="linear", warmup_steps=4, total_steps=8)
    assert [rate(step) for step in range(10)] == [2.0, 4.0, 6.0, 8.0, 8.0, 6.0, 4.0, 2.0, 0.0, 0.0]


def test_constant_by_hand():
    rate = LearningRate(peak=3.0, schedule="constant", warmup_steps=2, total_steps=4)
    assert [rate(step) for step in range(6)] == [1.5, 3.0, 3.0, 3.0, 3.0, 3.0]


def test_cosine_by_hand():
    rate = LearningRate(peak=2.0, schedule="cosine", warmup_steps=0, total_steps=4)
    expected = [2.0, 1 + math.sqrt(0.5), 1.0, 1 - math.sqrt(0.5), 0.0]
    assert [rate(step) for step in range(5)] == pytest.approx(expected)


def test_run_may_end_before_the_schedule(make_phase):
    """The Tatar recipe: 4000 steps of a linear course over 7500, with 75 steps of warm-up."""
    rate = learning_rate(
        make_phase(steps=4000, schedule_steps=7500, warmup_steps=75, schedule="linear", learning_rate=2e-5), 4000
    )
    assert rate(74) == 2e-5
    assert rate(3999) == pytest.approx(2e-5 * (7500 - 3999) / (7500 - 75))


def test_warm_up_longer_than_the_run_is_said(make_phase, caplog):
    rate = learning_rate(make_phase(steps=10, warmup_steps=40, learning_rate=1.0), 10)
    assert rate(9) == 0.25
    assert "ends at 0.25 of the peak" in caplog.text


def test_schedule_shorter_than_the_run_is_refused(make_phase):
    with pytest.raises(ValueError, match=r"schedule_steps is 5, but the phase has 8 steps.*0 from step 6"):
        learning_rate(make_phase(steps=8, schedule_steps=5, schedule="cosine"), 8)
    assert learning_rate(make_phase(steps=8, schedule_steps=5, schedule="constant"), 8)(7) == 1e-2
