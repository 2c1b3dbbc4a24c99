"""What the training and the pretraining stage share: from a model in memory to the stage's files and figures."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from configs.schema import PhaseConfig
from storage.tables import write_table
from tasks.contract import InputError, StageContext, StageResult
from tasks.training.checkpoint import CheckpointFolder
from tasks.training.cost import TrainingCost, training_cost
from tasks.training.loop import Trainer, fingerprint
from tasks.training.model_files import save_model
from tasks.training.numerics import choose_device, numeric_settings
from tasks.training.packing import PackedText, pack
from tasks.training.text_encoder import TextEncoder
from tasks.training.trainable import select_trainable

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingJob:
    """A training to do.

    Attributes:
        model: the model, float32, on the CPU.
        encoder: its tokenizer.
        source: folder of the tokenizer's files, and of generation_config.json where there is one.
        config: the phase.
        dtype: number format of the saved weights.
    """

    model: Any
    encoder: TextEncoder
    source: Path
    config: PhaseConfig
    dtype: torch.dtype


def run_job(job: TrainingJob, context: StageContext) -> StageResult:
    """Train as `job` says on `context.inputs['corpus']` and write the model folder and losses.parquet.

    Raises:
        InputError: model, tokenizer, text and configuration do not go together.
        Interrupted: SIGTERM came; run again with the same `context.work` to go on.
    """
    config = job.config
    check_fits(job)
    corpus = context.inputs["corpus"] / "train.parquet"
    text = pack(corpus, job.encoder, config.sequence_length, context.work, context.progress)
    device = choose_device(config.device)
    with numeric_settings(device, config.threads, config.seed):
        model = job.model.to(device)
        parameters = select_trainable(model, config.trainable, config.layers)
        cost = training_cost(model, parameters, config, len(text.sequences))
        log.info("%s on %s: %s", config.name, device, cost)
        context.progress(0, config.steps, "steps", str(cost))
        mark = fingerprint(config, parameters, text.sequences)
        checkpoints = CheckpointFolder(context.work / "checkpoints", mark)
        trainer = Trainer(model, parameters, text.sequences, config, checkpoints)
        trainer.run(context.progress)
        save_model(model, context.out, job.dtype, job.source)
    write_table(trainer.history.table(trainer.speed.tokens_per_step), context.out / "losses.parquet")
    return StageResult(summary(trainer, cost, text), trainer.speed.rows)


def check_fits(job: TrainingJob) -> None:
    """Refuse what would fail late or train nonsense.

    Raises:
        InputError: the vocabulary does not fit the embeddings, or the sequences are longer than the model's positions.
    """
    rows = job.model.get_input_embeddings().weight.shape[0]
    if job.encoder.size > rows:
        raise InputError(
            f"the tokenizer in {job.source} has ids up to {job.encoder.size - 1}, but the model has embeddings for ids "
            f"up to {rows - 1}: they do not belong together"
        )
    positions = getattr(job.model.config, "max_position_embeddings", None)
    if positions is not None and job.config.sequence_length > positions:
        raise InputError(
            f"sequence_length is {job.config.sequence_length}, but the model has {positions} positions: "
            f"set sequence_length to at most {positions}"
        )


def summary(trainer: Trainer, cost: TrainingCost, text: PackedText) -> dict[str, Any]:
    """The figures for people: losses in nats a token."""
    return {
        "final_loss": trainer.history.final_loss(),
        "mean_loss_of_last_tenth": trainer.history.mean_of_last_tenth(),
        "steps": trainer.step,
        "tokens": cost.tokens,
        "epochs": cost.epochs,
        "parameters_trained": cost.trained,
        "parameters": cost.total,
        "flops": cost.flops,
        "documents": text.documents,
        "text_tokens": text.tokens,
    }
