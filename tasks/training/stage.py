"""The stage `training`: one phase."""

from configs.schema import PhaseConfig
from tasks.contract import Stage, StageContext, StageResult


def run(context: StageContext) -> StageResult:
    """Train the model in `model` on the text in `corpus` as the phase says.

    Further inputs: 'corpus.<name>' for each further text of a mixture; 'mapping' for new rows and adapters;
    'vocabulary', the initial model with the new tokenizer, for adapters over the source model in `model`.

    Weights, gradients and optimizer state are float32; the artifact has the input model's number format, so a bfloat16
    model is rounded once, at the end of the phase, and the next phase starts from the rounded weights.

    Raises:
        InputError: model, text and configuration do not go together, or the training diverged.
        Interrupted: SIGTERM came after at least the state of one step was saved.
    """
    from dataclasses import replace
    from functools import partial

    import torch

    from tasks.pretrained import load_causal_model, load_config
    from tasks.training.adapter_start import take_special_tokens
    from tasks.training.job import TrainingJob, run_job
    from tasks.training.launch import processes_to_start, run_processes
    from tasks.training.model_files import stored_dtype
    from tasks.training.text_encoder import TextEncoder

    count = processes_to_start(context.config)
    if count > 1:
        return run_processes("training", context, count)
    source = context.inputs["model"]
    vocabulary = context.inputs.get("vocabulary", source)
    if "vocabulary" in context.inputs:
        load_config(vocabulary, "input 'vocabulary', the initial model with the new tokenizer")
    encoder = TextEncoder(vocabulary)
    load = partial(load_causal_model, source, "model", torch.float32)
    job = TrainingJob(load, encoder, vocabulary, context.config, stored_dtype(source))
    if "vocabulary" in context.inputs:
        job = replace(job, complete=partial(take_special_tokens, folder=vocabulary))
    return run_job(job, context)


STAGE = Stage("training", 2, PhaseConfig, run, isolated=True, retries=1, grace_seconds=900)
