"""How long a training is, in steps, and how its learning rate goes: what the configuration leaves to the text."""

import logging
import math
from dataclasses import dataclass

from configs.schema import PhaseConfig
from tasks.contract import InputError
from tasks.training.schedule import LearningRate
from tasks.training.training_text import TrainingText

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Course:
    """The course of a training.

    Attributes:
        steps: optimizer steps.
        rows: sequences in a step.
        rate: the learning rate of every step.
    """

    steps: int
    rows: int
    rate: LearningRate


def make_course(config: PhaseConfig, text: TrainingText) -> Course:
    """The course of the phase `config` on `text`.

    A budget of tokens gives the number of steps that comes nearest to it, one of epochs the first that reaches it.

    Raises:
        InputError: a falling schedule would be at 0 before the last step.
    """
    rows = config.rows_per_step
    if config.steps is not None:
        steps = config.steps
    elif config.tokens is not None:
        steps = max(1, round(config.tokens / (rows * text.tokens_per_row)))
    else:
        steps = max(1, math.ceil(round(text.rows_of_epochs(config.epochs or 0) / rows, 6)))
    return Course(steps, rows, learning_rate(config, steps))


def learning_rate(config: PhaseConfig, steps: int) -> LearningRate:
    """The schedule of a phase of `steps` steps.

    Raises:
        InputError: a falling schedule would be at 0 before the last step.
    """
    total = config.schedule_steps or steps
    if config.schedule != "constant" and total < steps:
        raise InputError(
            f"schedule_steps is {total}, but the phase has {steps} steps: the learning rate would be 0 "
            f"from step {total + 1} on; raise schedule_steps to {steps} or more, or make the phase shorter"
        )
    warm_up = config.warmup_steps or 0
    if config.warmup_ratio is not None:
        warm_up = math.ceil(round(config.warmup_ratio * total, 6))
    if warm_up >= steps:
        log.warning(
            "warm-up (%d steps) is as long as the training (%d steps): the learning rate ends at %.3g of the peak %.3g",
            warm_up, steps, steps / warm_up, config.learning_rate,
        )  # fmt: skip
    return LearningRate(config.learning_rate, config.schedule, warm_up, total)
