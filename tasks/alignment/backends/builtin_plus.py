"""This package's own aligner with agreement of the directions and hidden Markov models."""

from dataclasses import replace
from typing import TYPE_CHECKING

from tasks.alignment.backends.builtin import counted, model_settings, resources
from tasks.alignment.backends.declaration import Backend

if TYPE_CHECKING:
    from tasks.alignment.aligner import Aligned, Job


def align(job: "Job") -> "Aligned":
    """Train both directions in agreement and decode (see `tasks.alignment.engine.agreement`)."""
    from tasks.alignment.engine.em import train

    settings = replace(model_settings(job.config), plus=True)
    return train(job.words, settings, resources(job), job.directions, counted(job), report=job.report)


BACKEND = Backend(align=align, version=lambda: "built in", gives_expected_counts=True)
