import logging

import numpy as np
import pytest

from tasks.contract import InputError
from tasks.training.course import make_course
from tasks.training.packing import PackedText
from tasks.training.training_text import OneText, TrainingText


def text(rows=40, length=16, **further):
    """A target text of `rows` rows, and others with their shares: name=(rows, share)."""
    texts = {"target": PackedText(np.zeros((rows, length), np.int32), 1, rows * length)}
    texts |= {name: PackedText(np.zeros((n, length), np.int32), 1, n * length) for name, (n, _) in further.items()}
    shares = {name: share for name, (_, share) in further.items()}
    return TrainingText(OneText(texts["target"], 0), texts, {"target": 1 - sum(shares.values()), **shares})


@pytest.mark.parametrize(
    ("budget", "steps"),
    [
        ({"steps": 7}, 7),
        ({"tokens": 960}, 10),  # 6 rows of 16 are 96 tokens a step
        ({"tokens": 1000}, 10),
        ({"tokens": 1010}, 11),
        ({"tokens": 1}, 1),
        ({"epochs": 1.0}, 7),  # 40 rows, 6 a step
        ({"epochs": 3.0}, 20),
        ({"epochs": 0.15}, 1),
    ],
)
def test_steps_of_a_budget(make_phase, budget, steps):
    phase = make_phase(**{"steps": None, "schedule": "constant", **budget})
    assert make_course(phase, text()).steps == steps


def test_epochs_of_a_mixture_are_of_the_target(make_phase):
    """40 rows of the target are three quarters of what is read: 54 rows for one pass, 9 steps of 6."""
    phase = make_phase(steps=None, epochs=1.0, schedule="constant")
    assert make_course(phase, text(source=(1000, 0.25))).steps == 9


def test_epochs_reach_the_end_where_the_division_is_exact(make_phase):
    phase = make_phase(steps=None, epochs=1.0, schedule="constant", batch_size=None, batch_tokens=5 * 16)
    assert (phase.rows_per_step, make_course(phase, text()).steps) == (5, 8)
    phase = make_phase(steps=None, epochs=0.3, schedule="constant", batch_size=4)
    assert make_course(phase, text()).steps == 3


def test_warm_up_ratio(make_phase):
    """0.01 of 38,000 steps are 380; of a schedule longer than the training, its own share."""
    phase = make_phase(steps=38_000, warmup_steps=None, warmup_ratio=0.01, schedule="cosine")
    assert make_course(phase, text()).rate.warmup_steps == 380
    phase = make_phase(steps=10, schedule_steps=100, warmup_steps=None, warmup_ratio=0.05)
    course = make_course(phase, text())
    assert (course.rate.warmup_steps, course.rate.total_steps, course.steps) == (5, 100, 10)


def test_a_schedule_that_ends_before_the_budget(make_phase):
    phase = make_phase(steps=None, epochs=2.0, schedule_steps=10)
    with pytest.raises(InputError, match="schedule_steps is 10, but the phase has 14 steps"):
        make_course(phase, text())


def test_a_warm_up_as_long_as_the_training_is_told(make_phase, caplog):
    caplog.set_level(logging.WARNING)
    make_course(make_phase(steps=2, warmup_steps=4), text())
    assert "ends at 0.5 of the peak 0.01" in caplog.text
