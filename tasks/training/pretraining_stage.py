"""The stage `pretraining`: a small Llama model from nothing."""

from configs.schema import OptimizationConfig, PhaseConfig, PretrainConfig
from tasks.contract import Stage, StageContext, StageResult


def phase_of(config: PretrainConfig) -> PhaseConfig:
    """`config` as a phase that trains everything."""
    shared = {name: getattr(config, name) for name in OptimizationConfig.model_fields}
    return PhaseConfig(**shared, name="pretraining", trainable="all", steps=config.steps)


def run(context: StageContext) -> StageResult:
    """Build a Llama model for the vocabulary in `tokenizer` and train all of it on `corpus`; saved as float32.

    Raises:
        InputError: shape, text and configuration do not go together, or the training diverged.
        Interrupted: SIGTERM came; the state is in a checkpoint.
    """
    from functools import partial

    import torch

    from tasks.training.architecture import build_llama
    from tasks.training.job import TrainingJob, run_job
    from tasks.training.launch import processes_to_start, run_processes
    from tasks.training.text_encoder import TextEncoder

    config: PretrainConfig = context.config
    count = processes_to_start(config)
    if count > 1:
        return run_processes("pretraining", context, count)
    encoder = TextEncoder(context.inputs["tokenizer"])
    load = partial(build_llama, config.architecture, encoder, config.seed)
    job = TrainingJob(load, encoder, context.inputs["tokenizer"], phase_of(config), torch.float32)
    return run_job(job, context)


STAGE = Stage("pretraining", 2, PretrainConfig, run, isolated=True, retries=1, grace_seconds=900)
