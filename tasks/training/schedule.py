"""The learning rate of every step."""

import math
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class LearningRate:
    """Linear warm-up, then a constant, linear or cosine course.

    With W = `warmup_steps`, T = `total_steps` and steps counted from 0:
        step < W:   peak · (step + 1) / W, so that the first step already moves and step W - 1 has the peak rate;
        constant:   peak;
        linear:     peak · (T - step) / (T - W);
        cosine:     peak · (1 + cos(π · (step - W) / (T - W))) / 2;
        step >= T:  0 (linear and cosine).
    A run may end before T: the Tatar recipe of trans-tokenization (Remy et al. 2024, appendix) runs 4000 steps of a
    linear course over 7500.

    Attributes:
        peak: the highest rate.
        schedule: the course after warm-up.
        warmup_steps: W.
        total_steps: T, the length that the course assumes, warm-up included.
    """

    peak: float
    schedule: Literal["constant", "linear", "cosine"]
    warmup_steps: int
    total_steps: int

    def __call__(self, step: int) -> float:
        """The rate of step `step`, counted from 0."""
        if step < self.warmup_steps:
            return self.peak * (step + 1) / self.warmup_steps
        if self.schedule == "constant":
            return self.peak
        if step >= self.total_steps:
            return 0.0
        left = (self.total_steps - step) / (self.total_steps - self.warmup_steps)
        if self.schedule == "linear":
            return self.peak * left
        return self.peak * (1.0 + math.cos(math.pi * (1.0 - left))) / 2.0
