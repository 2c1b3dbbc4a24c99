"""What the training and the pretraining stage share: from a model in memory to the stage's files and figures."""

import gc
import hashlib
import json
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from configs.schema import PhaseConfig, key_fields
from storage.tables import write_table
from tasks.contract import InputError, StageContext, StageResult, no_note, no_progress
from tasks.training.best_weights import BestWeights
from tasks.training.checkpoint import CheckpointFolder
from tasks.training.cost import MOMENTS, TrainingCost, training_cost
from tasks.training.course import Course, make_course
from tasks.training.forward import ForwardPass, checkpoint_activations, packing_method
from tasks.training.held_out import HeldOut, held_out
from tasks.training.loop import Places, Trainer
from tasks.training.memory import is_out_of_memory, memory_advice, micro_batch_size
from tasks.training.model_files import save_model
from tasks.training.numerics import choose_device, numeric_settings, seed_of_rank, uses_bfloat16
from tasks.training.packing import PackedDocuments
from tasks.training.ranks import Ranks, joined, ranks_of_environment
from tasks.training.sharding import as_pass, gather, mesh_of, shard
from tasks.training.strategy import Prepared, prepare
from tasks.training.tensorboard_log import curves_folder
from tasks.training.text_encoder import TextEncoder
from tasks.training.training_text import TARGET, TrainingText, training_text
from tasks.training.trial import leaving_no_trace, trained_numbers, try_out

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingJob:
    """A training to do.

    Attributes:
        load: reads the model: float32, on the CPU.
        encoder: its tokenizer (of adapters: the new one).
        source: folder of the tokenizer's files, and of generation_config.json where there is one.
        config: the phase.
        dtype: number format of the saved weights.
        complete: called with the trained model before it is saved.
    """

    load: Callable[[], Any]
    encoder: TextEncoder
    source: Path
    config: PhaseConfig
    dtype: torch.dtype
    complete: Callable[[Any], None] = lambda model: None


def run_job(job: TrainingJob, context: StageContext) -> StageResult:
    """Train as `job` says on `context.inputs['corpus']` and write the model folder, losses.parquet and, with
    validation, validation.parquet.

    A mixture reads further texts from the inputs 'corpus.<name>'; new rows and adapters are told by 'mapping'.

    Raises:
        InputError: model, tokenizer, text and configuration do not go together, or memory does not suffice.
        Interrupted: SIGTERM came; run again with the same `context.work` to go on.
    """
    config = job.config
    device = choose_device(config.device, ranks_of_environment().local_rank)
    with joined(device, config.processes.sharding == "full") as ranks:
        if ranks.count > config.rows_per_step:
            raise InputError(
                f"{ranks.count} processes share the {config.rows_per_step} sequences of a step: start fewer, or raise "
                "batch_size"
            )
        silent = replace(context, progress=no_progress, note=no_note)
        return _run(job, context if ranks.first else silent, device, ranks)


def _run(job: TrainingJob, context: StageContext, device: torch.device, ranks: Ranks) -> StageResult:
    """What one of the processes does; the first one writes the results."""
    config = job.config
    seed = seed_of_rank(config.seed, ranks.rank)
    with numeric_settings(device, config.threads, seed, ranks.local_count), memory_advice(config):
        prepared = _prepared(job, context.inputs.get("mapping"), device, ranks)
        ranks.check_shared(context.work)
        with ranks.first_alone():
            text = training_text(_corpora(context), job.encoder, config, context.work, context.progress)
        course = make_course(config, text)
        scored = _held_out(job, context, _positions(prepared.base))
        cost = training_cost(prepared, text, course, config.gradient_checkpointing)
        log.info("%s on %s: %s", config.name, device, cost)
        context.note(str(cost))
        trainer = _trainer(prepared, text, course, config, _Place(context.work, device, ranks))
        trainer.held_out = scored
        _say_what_is_ahead(trainer, context)
        trainer.run(context.progress)
        if ranks.sharded:
            gather(prepared.objective, ranks.first)
        if not ranks.first:
            return StageResult()
        model = prepared.finish()
        job.complete(model)
        save_model(model, context.out, job.dtype, job.source)
    write_table(trainer.history.table(), context.out / "losses.parquet")
    if scored is not None:
        write_table(trainer.scores.table(), context.out / "validation.parquet")
    return StageResult(summary(trainer, cost, text), trainer.speed.rows)


def _corpora(context: StageContext) -> dict[str, Path]:
    further = {name: path for name, path in context.inputs.items() if name.startswith("corpus.")}
    folders = {TARGET: context.inputs["corpus"]}
    folders |= {name.removeprefix("corpus."): path for name, path in sorted(further.items())}
    return {name: folder / "train.parquet" for name, folder in folders.items()}


def _held_out(job: TrainingJob, context: StageContext, positions: int | None) -> HeldOut | None:
    validation = job.config.validation
    if validation is None:
        return None
    return held_out(context.inputs["corpus"], job.source, validation.sentences, positions)


@dataclass(frozen=True)
class _Place:
    """Where one process of a training works: its folder, its device, and which process it is."""

    work: Path
    device: torch.device
    ranks: Ranks


def _prepared(job: TrainingJob, mapping: Path | None, device: torch.device, ranks: Ranks) -> Prepared:
    """The phase on its device, whole or this process's part of it.

    The processes of a machine read the model one after another: its main memory holds one whole model at a time.
    """
    mesh = mesh_of(device) if ranks.sharded else None
    with ranks.in_turn():
        model = job.load()
        check_fits(job, model)
        prepared = prepare(model, job.config, mapping)
        if mesh is not None:
            return shard(prepared, mesh, uses_bfloat16(job.config.precision, device))
        prepared.objective.to(device)
        return prepared


def _trainer(prepared: Prepared, text: TrainingText, course: Course, config: PhaseConfig, place: _Place) -> Trainer:
    bfloat16 = uses_bfloat16(config.precision, place.device)
    ask = as_pass(prepared.objective, packing_method) if place.ranks.sharded else packing_method
    method = ask(prepared.base, config.packing, bfloat16)
    if config.gradient_checkpointing:
        checkpoint_activations(prepared.base)
    forward = ForwardPass(prepared.objective, method, bfloat16, ranks=place.ranks)
    forward.micro_batch = micro_batch_size(
        config, place.device, lambda size: _fits(prepared, text, forward, (size, course.rows)), place.ranks.count
    )
    mark = fingerprint(config, prepared, text, course)
    checkpoints = CheckpointFolder(place.work / "checkpoints", mark, ranks=place.ranks)
    curves = curves_folder(place.work, config.name) if place.ranks.first else None
    places = Places(checkpoints, BestWeights(place.work / "best", mark, place.ranks), curves)
    return Trainer(prepared, text.rows, config, course, forward, places)


def _fits(prepared: Prepared, text: TrainingText, forward: ForwardPass, sizes: tuple[int, int]) -> bool:
    """Whether a micro batch fits beside gradients and AdamW's moments on every GPU used; some memory is kept free.

    Args:
        prepared: the objective on its device.
        text: the text.
        forward: gets the micro batch.
        sizes: rows of a micro batch, and of a step. Two micro batches are tried where a step has as many: in the second
            one there are gradients already.
    """
    forward.micro_batch, step_rows = sizes
    spare = torch.cuda.get_device_properties(forward.device).total_memory // 25
    try:
        with leaving_no_trace(prepared, forward.device), prepared.step():
            moments = torch.empty(MOMENTS * trained_numbers(prepared) + spare, dtype=torch.uint8, device=forward.device)
            forward.gradients(text.rows.read(0, min(step_rows, 2 * forward.micro_batch * forward.ranks.count)))
            if prepared.extra_loss is not None:
                prepared.extra_loss().backward()  # type: ignore[no-untyped-call]
            del moments
        fits = True
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        fits = False
    finally:
        gc.collect()
        torch.cuda.empty_cache()
    fits = not forward.ranks.any(not fits)
    if fits:
        log.info("micro batches of %d sequences fit", forward.micro_batch)
    return fits


def _say_what_is_ahead(trainer: Trainer, context: StageContext) -> None:
    """Say how long the steps that are left will take, and how much memory, before the first of them."""
    done, validation = trainer.places.checkpoints.steps(), trainer.config.validation
    steps = trainer.course.steps - trainer.ranks.of_first(done[-1] if done else 0)
    if steps <= 0:
        return
    found = try_out(trainer.gradients, trainer.prepared, trainer.rows, trainer.forward, trainer.course.rows, steps)
    scores = 0 if validation is None else 1 + steps // validation.every
    scored = 0 if trainer.held_out is None else scores * trainer.held_out.tokens
    message = found.in_words(steps, scored)
    log.info("%s", message)
    context.note(message)


def fingerprint(config: PhaseConfig, prepared: Prepared, text: TrainingText, course: Course) -> str:
    """What must agree for a checkpoint to be taken: configuration, course, trained parameters, sizes of the texts."""
    facts = {
        "config": key_fields(config),
        "course": asdict(course),
        "parameters": {name: list(parameter.shape) for name, parameter in prepared.parameters.items()},
        "texts": {name: [len(rows), rows.length, rows.tokens] for name, rows in text.texts.items()},
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def check_fits(job: TrainingJob, model: Any) -> None:
    """Refuse what would fail late or train nonsense.

    Raises:
        InputError: the vocabulary does not fit the embeddings, or the sequences are longer than the model's positions.
    """
    rows = model.get_input_embeddings().weight.shape[0]
    if job.encoder.size > rows and job.config.trainable != "adapter":
        raise InputError(
            f"the tokenizer in {job.source} has ids up to {job.encoder.size - 1}, but the model has embeddings for ids "
            f"up to {rows - 1}: they do not belong together"
        )
    positions = _positions(model)
    if positions is not None and job.config.sequence_length > positions:
        raise InputError(
            f"sequence_length is {job.config.sequence_length}, but the model has {positions} positions: "
            f"set sequence_length to at most {positions}"
        )


def _positions(model: Any) -> int | None:
    found = getattr(model.config, "max_position_embeddings", None)
    return None if found is None else int(found)


def summary(trainer: Trainer, cost: TrainingCost, text: TrainingText) -> dict[str, Any]:
    """The figures for people: losses in nats a token."""
    history, target = trainer.history, text.texts[TARGET]
    share = trainer.step / trainer.course.steps
    seen = {part.name: part for part in trainer.rows.seen(trainer.step * trainer.course.rows)}
    figures: dict[str, Any] = {
        "final_loss": history.final_loss() if len(history) else None,
        "mean_loss_of_last_tenth": history.mean_of_last_tenth() if len(history) else None,
        "steps": trainer.step,
        "tokens": history.tokens,
        "epochs": seen[TARGET].passes,
        "parameters_trained": cost.trained,
        "parameters": cost.total,
        "flops": cost.flops * share,
        "documents": target.documents,
        "text_tokens": target.tokens,
        "padding_share": history.padding / max(1, history.tokens + history.padding),
        "processes": trainer.ranks.count,
        "step_seconds": trainer.speed.seconds,
        "tokens_per_second": trainer.speed.tokens_per_second,
    }
    if isinstance(target, PackedDocuments):
        figures["filling"] = target.filling
    if len(text.texts) > 1:
        figures["texts"] = {name: asdict(part) for name, part in seen.items()}
    if trainer.scores.rows:
        step, _, value = trainer.scores.best()
        figures |= {"best_step": step, "bits_per_byte": value, "stopped_early": trainer.stopped_early}
    return figures
