"""The contract between a stage and whoever runs it.

A stage is a function of a `StageContext`: it reads the folders in `inputs` and `files`, writes files into `out`, and
returns a `StageResult`. It knows nothing of keys, caches or Prefect. What it writes into `out` must be the same bytes
whenever config and inputs are the same; anything measured (times, speeds, hosts) goes into the result instead.

A package's `stage.py` is light to import (standard library, `configs.schema` and this module at the top; torch, numba,
pyarrow and the like inside `run`), so that a plan can be made without loading them.
"""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from configs.schema import Config


class InputError(ValueError):
    """The person's data or configuration cannot be used; the message says what, where and what to do.

    Never retried: the same input would fail again.
    """


class Progress(Protocol):
    """Receiver of progress: may be called often, throttles by itself."""

    def __call__(self, done: float, total: float | None, unit: str, message: str = "") -> None:
        """`done` of `total` (None: not known) `unit`s are finished; `message` adds figures such as the loss."""


def no_progress(done: float, total: float | None, unit: str, message: str = "") -> None:
    """A `Progress` that drops everything."""


def no_note(text: str) -> None:
    """Drops what a stage says."""


@dataclass(frozen=True)
class StageContext:
    """What a stage is given.

    Attributes:
        config: the stage's configuration (an instance of `Stage.config`).
        inputs: folder of each input artifact, by input name; read only.
        files: local files from outside the store, by name; read only.
        out: empty folder; what is in it at the end is the artifact.
        work: folder that survives a kill of the process and is there again when the same stage is run again with the
            same key (checkpoints, shards); removed once the artifact is published. Needs no tidying.
        progress: called with how far the stage is.
        note: called with what a person should be told whatever else is shown: what the work will cost.
        measurements: of a stage that `reads_measurements`: Parquet file of times and speeds of each input's build, by
            input name, where there is one. They are in no key, so nothing but what is shown may come from them.
    """

    config: Any
    inputs: Mapping[str, Path]
    out: Path
    work: Path
    files: Mapping[str, Path] = field(default_factory=dict)
    progress: Progress = no_progress
    note: Callable[[str], None] = no_note
    measurements: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True)
class StageResult:
    """What a stage returns besides its files.

    Attributes:
        summary: a few figures for people (JSON types), kept in the manifest, outside the content digest.
        measurements: times and speeds as rows of one table (a list of flat dicts with the same keys), kept beside the
            artifact as Parquet, outside the content digest.
    """

    summary: dict[str, Any] = field(default_factory=dict)
    measurements: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Stage:
    """A stage's declaration.

    Attributes:
        name: name in keys, folders and the UI.
        version: raised by hand whenever the same config and inputs give another answer.
        config: its configuration model.
        run: the stage function.
        isolated: run in a child process of its own (memory freed, a crash does not take the worker along).
        retries: how often a failure other than `InputError` is tried again.
        environment: variables of the process of an isolated stage, where they are not set already.
        grace_seconds: time that an isolated stage has to save its state when it is interrupted, before it is killed.
        reads_measurements: it shows how long its inputs took and how fast they were (not where it is isolated).
    """

    name: str
    version: int
    config: type[Config]
    run: Callable[[StageContext], StageResult]
    isolated: bool = False
    retries: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)
    grace_seconds: float = 30.0
    reads_measurements: bool = False


# Environment of stages that read tokenizers and no models: transformers takes seconds to load torch.
WITHOUT_TORCH = {"USE_TORCH": "0", "TRANSFORMERS_NO_ADVISORY_WARNINGS": "1"}

STAGE_MODULES: dict[str, str] = {
    "sample": "tasks.sample.stage",
    "corpus": "tasks.corpus.stage",
    "bitext": "tasks.corpus.bitext_stage",
    "tokenizer": "tasks.tokenizer.stage",
    "fertility": "tasks.tokenizer.fertility_stage",
    "pretraining": "tasks.training.pretraining_stage",
    "alignment": "tasks.alignment.stage",
    "counts": "tasks.alignment.counts_stage",
    "mapping": "tasks.embeddings.mapping_stage",
    "initial-model": "tasks.embeddings.initial_model_stage",
    "embeddings": "tasks.embeddings.embeddings_stage",
    "training": "tasks.training.stage",
    "evaluation": "tasks.evaluation.stage",
    "card": "tasks.card.stage",
    "report": "tasks.report.stage",
    "comparison": "tasks.report.comparison_stage",
}


def load_stage(name: str) -> Stage:
    """The declaration of the stage `name` (its module's `STAGE`).

    Raises:
        KeyError: no stage has that name.
    """
    stage = importlib.import_module(STAGE_MODULES[name]).STAGE
    if not isinstance(stage, Stage) or stage.name != name:
        raise TypeError(f"{STAGE_MODULES[name]}.STAGE does not declare the stage {name!r}")
    return stage
