"""This package's own aligner: the diagonal model of fast_align (Dyer et al. 2013), or IBM Model 1."""

from typing import TYPE_CHECKING

from configs.schema import AlignmentConfig
from tasks.alignment.backends.declaration import Backend

if TYPE_CHECKING:
    from tasks.alignment.aligner import Aligned, Job
    from tasks.alignment.engine.expected import Counted
    from tasks.alignment.engine.settings import ModelSettings
    from tasks.alignment.engine.shards import Resources


def model_settings(config: AlignmentConfig) -> "ModelSettings":
    """The model that the configuration asks for."""
    from tasks.alignment.engine.settings import ModelSettings

    return ModelSettings(
        diagonal=config.model == "diagonal",
        iterations=config.iterations,
        alpha=config.alpha if config.variational_bayes else 0.0,
        p_null=config.p_null,
        tension=config.tension,
        optimize_tension=config.optimize_tension,
    )


def resources(job: "Job") -> "Resources":
    """The folder, threads and memory that the configuration allows."""
    from tasks.alignment.engine.shards import Resources
    from tasks.alignment.machine import memory_budget

    return Resources(folder=job.work, threads=job.config.threads, memory=memory_budget(job.config.memory_gib))


def counted(job: "Job") -> "Counted | None":
    """By what expected counts are made: the units and the corpora; None where none are asked for."""
    if job.config.counts != "expected":
        return None
    from tasks.alignment.engine.expected import Counted

    return Counted(job.units, job.corpus, int(job.corpus.max(initial=0)) + 1)


def align(job: "Job") -> "Aligned":
    """Train both directions and decode (see `tasks.alignment.engine.em`)."""
    from tasks.alignment.engine.em import train

    return train(job.words, model_settings(job.config), resources(job), job.directions, counted(job), report=job.report)


BACKEND = Backend(align=align, version=lambda: "built in", gives_expected_counts=True)
