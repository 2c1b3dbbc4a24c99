"""The stage `training`: one phase."""

from configs.schema import PhaseConfig
from tasks.contract import Stage, StageContext, StageResult


def run(context: StageContext) -> StageResult:
    """Train the model in `model` on the text in `corpus` as the phase says.

    Weights, gradients and optimizer state are float32; the artifact has the input model's number format, so a bfloat16
    model is rounded once, at the end of the phase, and the next phase starts from the rounded weights.

    Raises:
        InputError: model, text and configuration do not go together, or the training diverged.
        Interrupted: SIGTERM came after at least the state of one step was saved.
    """
    import torch

    from tasks.pretrained import load_causal_model
    from tasks.training.job import TrainingJob, run_job
    from tasks.training.model_files import stored_dtype
    from tasks.training.text_encoder import TextEncoder

    source = context.inputs["model"]
    encoder = TextEncoder(source)
    model = load_causal_model(source, "model", torch.float32)
    return run_job(TrainingJob(model, encoder, source, context.config, stored_dtype(source)), context)


STAGE = Stage("training", 1, PhaseConfig, run, isolated=True, retries=1)
