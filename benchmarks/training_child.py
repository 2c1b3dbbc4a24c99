"""One training of benchmarks/training.py, in a process of its own.

python -m benchmarks.training_child WAY REQUEST RESULT

WAY is `langadapt` (the stage `training` as it is), `trainer` (transformers.Trainer on the phase's own rows, in their
order) or `sentences` (transformers.Trainer with its padding collator on the sentences; `sentences, grouped`: with those
of about one length together). REQUEST is a `Request` as JSON; `StepFigures` are written to RESULT as JSON.
"""

import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch

from benchmarks.training_runs import Request, StepFigures
from configs.schema import PhaseConfig
from tasks.contract import StageContext, load_stage


def by_langadapt(request: Request, work: Path) -> StepFigures:
    """The stage `training`, reporting every step."""
    out, figures = work / "out", StepFigures()
    out.mkdir()

    def progress(done: float, total: float | None, unit: str, message: str = "") -> None:
        if unit == "steps" and done:
            figures.note()

    config = PhaseConfig(**request.phase)
    load_stage("training").run(StageContext(config, request.folders, out, work, progress=progress))
    losses = pq.read_table(out / "losses.parquet")
    tokens = np.diff(losses["tokens"].to_numpy(), prepend=0)
    figures.tokens, figures.places = tokens.tolist(), (tokens + losses["padding"].to_numpy()).tolist()
    figures.losses = losses["loss"].to_pylist()
    return figures


def main(way: str, request: str, result: str) -> None:
    """Measure and write."""
    wanted = Request(**json.loads(Path(request).read_text()))
    torch.set_num_threads(wanted.phase["threads"])
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        if way == "langadapt":
            figures = by_langadapt(wanted, work)
        else:
            from benchmarks.training_by_trainer import by_sentences, by_trainer  # ours does without this import

            figures = by_trainer(wanted, work) if way == "trainer" else by_sentences(wanted, work, "grouped" in way)
    Path(result).write_text(json.dumps(asdict(figures)))


if __name__ == "__main__":
    main(*sys.argv[1:])
