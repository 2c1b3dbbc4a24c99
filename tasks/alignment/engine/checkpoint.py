"""Checkpoints of a training run: its model after an iteration."""

import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import xxhash

from tasks.alignment.aligner import Iteration
from tasks.alignment.bitext import Bitext
from tasks.alignment.engine.columns import Column, Resident, Spilled, spill
from tasks.alignment.engine.passes import Model
from tasks.alignment.engine.settings import ModelSettings

VERSION = 1


def fingerprint(words: Bitext, settings: ModelSettings, directions: Sequence[str]) -> str:
    """A digest of the text and the settings (hexadecimal)."""
    digest = xxhash.xxh3_128()
    for array in (words.source, words.source_offsets, words.target, words.target_offsets):
        digest.update(np.ascontiguousarray(array).data)
    told = json.dumps([VERSION, asdict(settings), list(directions), words.source_words, words.target_words])
    return hashlib.sha256((digest.hexdigest() + told).encode()).hexdigest()


class Checkpoints:
    """Checkpoints of one run in a folder; those of another run are removed."""

    def __init__(self, folder: Path, run: str) -> None:
        self._folder, self._run = folder, run

    def clear_others(self, work: Path) -> None:
        """Remove shards and checkpoints in `work` that belong to another text or other settings."""
        marker = work / "run"
        if not marker.exists() or marker.read_text() != self._run:
            for name in ("em", "shards", "counted", "counts"):
                shutil.rmtree(work / name, ignore_errors=True)
            work.mkdir(parents=True, exist_ok=True)
            marker.write_text(self._run)
        self._folder.mkdir(parents=True, exist_ok=True)

    def column(self, iteration: int, shard: int) -> Path:
        """File of a shard's probabilities after an iteration."""
        return self._folder / f"{iteration:03d}.{shard:05d}.float32"

    def save(self, model: Model, figures: tuple[list[Iteration], list[Iteration]]) -> None:
        """Write the model after as many iterations as there are figures; earlier checkpoints are removed."""
        number = max(len(rows) for rows in figures)
        for shard, column in enumerate(model.translation):
            if isinstance(column, Resident):
                spill(column.array, self.column(number, shard))
        spill(model.null_target, self._folder / f"{number:03d}.null_target")
        spill(model.null_source, self._folder / f"{number:03d}.null_source")
        state = {
            "iteration": number,
            "tensions": model.tensions,
            "figures": [[asdict(row) for row in rows] for rows in figures],
            "shards": len(model.translation),
            "jumps": model.jumps.tolist(),
            "sizes": [len(model.null_target), len(model.null_source)],
        }
        temporary = self._folder / "state.tmp"
        temporary.write_text(json.dumps(state))
        temporary.replace(self._folder / "state.json")
        for path in self._folder.glob("[0-9]*"):
            if not path.name.startswith(f"{number:03d}."):
                path.unlink()

    def load(
        self, settings: ModelSettings, parameters: Sequence[int]
    ) -> tuple[Model, tuple[list[Iteration], list[Iteration]]] | None:
        """The last checkpoint of shards with so many parameters, or None."""
        path = self._folder / "state.json"
        if not path.exists():
            return None
        state = json.loads(path.read_text())
        number = state["iteration"]
        columns: list[Column] = []
        if state["shards"] != len(parameters):
            return None
        for shard, size in enumerate(parameters):
            file = self.column(number, shard)
            if not file.exists() or file.stat().st_size != 8 * size:
                return None
            column = Spilled(file, np.float32, 2)
            columns.append(Resident(column.read(0, size)) if len(parameters) == 1 else column)
        nulls = [
            Spilled(self._folder / f"{number:03d}.{name}", np.float32).read(0, size)
            for name, size in zip(("null_target", "null_source"), state["sizes"], strict=True)
        ]
        tensions = state["tensions"]
        jumps = np.array(state["jumps"], dtype=np.int64)
        prior = (settings.diagonal, settings.p_null, (tensions[0], tensions[1]))
        model = Model(*prior, tuple(columns), nulls[0], nulls[1], jumps)
        forward, reverse = ([Iteration(**row) for row in rows] for rows in state["figures"])
        return model, (forward, reverse)
