"""A phase trained by transformers.Trainer, for benchmarks/training.py. Reading and encoding of text are not timed."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import IterableDataset
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from benchmarks.training_runs import Request, StepFigures
from configs.schema import PhaseConfig
from tasks.training.course import make_course
from tasks.training.linear_cross_entropy import IGNORED
from tasks.training.text_encoder import TextEncoder
from tasks.training.token_stream import encode_corpus
from tasks.training.training_text import TARGET, training_text


class Clock(TrainerCallback):  # type: ignore[misc]  # transformers has no types
    """Notes the end and the loss of each step."""

    def __init__(self, figures: StepFigures) -> None:
        self.figures = figures

    def on_log(self, *_: Any, logs: dict[str, float], **__: Any) -> None:
        """Called after each step, with its loss read."""
        if "loss" in logs:
            self.figures.note()
            self.figures.losses.append(logs["loss"])


class InOrder(IterableDataset[dict[str, torch.Tensor]]):
    """The rows of a batch, one after another, each a document whose first token is not predicted."""

    def __init__(self, tokens: torch.Tensor) -> None:
        self.tokens = tokens

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        for row in self.tokens:
            labels = row.clone()
            labels[0] = IGNORED  # not predicted in any case, but Trainer would count it
            yield {"input_ids": row, "labels": labels}


def by_trainer(request: Request, work: Path) -> StepFigures:
    """transformers.Trainer on the rows that the stage takes."""
    config = PhaseConfig(**request.phase)
    encoder = TextEncoder(request.folders["model"])
    text = training_text({TARGET: request.folders["corpus"] / "train.parquet"}, encoder, config, work)
    course = make_course(config, text)
    rows = torch.from_numpy(text.rows.read(0, course.steps * course.rows).tokens)
    figures = StepFigures()
    _train(request, config, figures, {"train_dataset": InOrder(rows)}, (course.rows, int(config.micro_batch_size)))
    figures.tokens = figures.places = [course.rows * text.length] * course.steps
    return figures


class CountingCollator:
    """transformers' collator, which pads to the longest of a batch; counts tokens and places of each batch."""

    def __init__(self, folder: Path) -> None:
        self._collator = DataCollatorForLanguageModeling(AutoTokenizer.from_pretrained(folder), mlm=False)
        self.tokens: list[int] = []
        self.places: list[int] = []

    def __call__(self, sentences: list[dict[str, list[int]]]) -> dict[str, torch.Tensor]:
        batch: dict[str, torch.Tensor] = self._collator(sentences)
        batch["labels"][:, 0] = IGNORED  # as in `InOrder`
        self.tokens.append(int(batch["attention_mask"].sum()))
        self.places.append(batch["attention_mask"].numel())
        return batch


def by_sentences(request: Request, work: Path, grouped: bool) -> StepFigures:
    """transformers.Trainer with padding, on the sentences in a random order, cut to the phase's length."""
    config = PhaseConfig(**request.phase)
    stream = encode_corpus(request.folders["corpus"] / "train.parquet", TextEncoder(request.folders["model"]), work)
    ends = np.minimum(stream.offsets[1:], stream.offsets[:-1] + config.sequence_length)
    ranges = zip(stream.offsets[:-1].tolist(), ends.tolist(), strict=True)
    sentences = [{"input_ids": stream.tokens[start:end].tolist()} for start, end in ranges]
    figures, collator = StepFigures(), CountingCollator(request.folders["model"])
    given = {"train_dataset": sentences, "data_collator": collator}
    at_once = request.sentences_at_once
    _train(request, config, figures, given, (request.sentences_a_step, at_once), grouped)
    batches = request.sentences_a_step // at_once
    for name in ("tokens", "places"):
        counted = np.array(getattr(collator, name)[: batches * len(figures.ends)])  # it may have read ahead
        setattr(figures, name, counted.reshape(-1, batches).sum(1).tolist())
    return figures


def _train(
    request: Request,
    config: PhaseConfig,
    figures: StepFigures,
    given: dict[str, Any],
    sizes: tuple[int, int],
    grouped: bool = False,
) -> None:
    """Run Trainer with the phase's settings; `sizes`: examples in a step and in a forward pass."""
    model = AutoModelForCausalLM.from_pretrained(request.folders["model"], dtype=torch.float32)
    together = "group_by_length" in TrainingArguments.__dataclass_fields__
    grouping = {"group_by_length": True} if together else {"train_sampling_strategy": "group_by_length"}
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            output_dir=folder,
            use_cpu=True,
            max_steps=config.steps,
            per_device_train_batch_size=sizes[1],
            gradient_accumulation_steps=sizes[0] // sizes[1],
            learning_rate=config.learning_rate,
            lr_scheduler_type=config.schedule,
            warmup_steps=0,
            weight_decay=config.weight_decay,
            adam_beta1=config.adam_beta1,
            adam_beta2=config.adam_beta2,
            max_grad_norm=config.max_gradient_norm,
            optim="adamw_torch_fused",
            seed=config.seed,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            dataloader_pin_memory=False,
            remove_unused_columns=False,
            **(grouping if grouped else {}),
        )
        Trainer(model=model, args=settings, callbacks=[Clock(figures)], **given).train()
