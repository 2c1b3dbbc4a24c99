"""Settings of the built-in models."""

from dataclasses import dataclass
from typing import Literal

HMM_PASSES = 2
Kind = Literal["plain", "agreement", "hmm"]


@dataclass(frozen=True)
class ModelSettings:
    """What the model is (see `configs.schema.AlignmentConfig`).

    Attributes:
        diagonal: diagonal prior; False is IBM Model 1, whose prior is 1 / (n + 1) with NULL as one of the words.
        iterations: passes, the decoding one included.
        alpha: concentration of the Dirichlet prior of variational Bayes; 0 for maximum likelihood.
        p_null: prior of NULL (diagonal only).
        tension: first tension (diagonal only).
        optimize_tension: fit the tension (diagonal only).
        plus: agreement of the directions and hidden Markov models (see `agreement`).
    """

    diagonal: bool = True
    iterations: int = 5
    alpha: float = 0.01
    p_null: float = 0.08
    tension: float = 4.0
    optimize_tension: bool = True
    plus: bool = False

    def kind(self, number: int) -> Kind:
        """What pass `number` (from 1) is.

        `plus`: the first pass is plain, the last `HMM_PASSES` are hidden Markov models with agreement, those between
        are the diagonal model with agreement. Otherwise all are plain.
        """
        if not self.plus or number == 1:
            return "plain"
        return "hmm" if number > self.iterations - HMM_PASSES and number > 2 else "agreement"
