"""Trainings measured in processes of their own, in turns, and what comes out of them."""

import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.measured_child import Measured, measure, processors
from tasks.isolation import SPIN_COUNT

WARM_UP = 2  # steps that are not counted
MIB = 2**20


@dataclass(frozen=True)
class Request:
    """What is trained.

    Attributes:
        phase: a `PhaseConfig` as JSON, with a number of steps.
        inputs: folder of each input of the stage.
        sentences_a_step: `sentences`: sentences in a step.
        sentences_at_once: `sentences`: sentences in a forward pass.
    """

    phase: dict[str, Any]
    inputs: dict[str, str]
    sentences_a_step: int = 0
    sentences_at_once: int = 0

    @property
    def folders(self) -> dict[str, Path]:
        """The inputs."""
        return {name: Path(folder) for name, folder in self.inputs.items()}


@dataclass
class StepFigures:
    """What each step took and gave.

    Attributes:
        ends: seconds from a common beginning to the step's end.
        processor_ends: processor seconds of the process, in all threads, at the step's end.
        tokens: tokens of text in the step.
        places: the same with padding.
        losses: mean loss of the step, nats.
    """

    ends: list[float] = field(default_factory=list)
    processor_ends: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)

    def note(self) -> None:
        """A step has ended."""
        self.ends.append(time.perf_counter())
        self.processor_ends.append(time.process_time())


@dataclass(frozen=True)
class Run:
    """One training.

    Attributes:
        figures: its steps.
        measured: its process, start and end included.
    """

    figures: StepFigures
    measured: Measured

    @property
    def step_seconds(self) -> float:
        """Median of the steps after the first `WARM_UP`."""
        ends = self.figures.ends[WARM_UP - 1 :]
        return median(end - begin for begin, end in pairwise(ends))

    @property
    def step_processor_seconds(self) -> float:
        """The same in processor seconds of all threads: of one thread it says more where others use processors."""
        ends = self.figures.processor_ends[WARM_UP - 1 :]
        return median(end - begin for begin, end in pairwise(ends))

    @property
    def tokens_per_second(self) -> float:
        """Tokens of text a second over the steps after the first `WARM_UP`."""
        return sum(self.figures.tokens[WARM_UP:]) / (self.figures.ends[-1] - self.figures.ends[WARM_UP - 1])

    @property
    def padding(self) -> float:
        """Share of places without a token."""
        return 1 - sum(self.figures.tokens) / sum(self.figures.places)


@dataclass(frozen=True)
class Runs:
    """The same training several times.

    Attributes:
        runs: one for each round.
        threads: of each.
    """

    runs: Sequence[Run]
    threads: int

    def median(self, name: str) -> float:
        """The median of an attribute of `Run`."""
        return float(median(getattr(run, name) for run in self.runs))

    @property
    def peak_bytes(self) -> float:
        """Median of the peak memory of the processes."""
        return float(median(run.measured.peak_bytes for run in self.runs))

    @property
    def disturbed(self) -> bool:
        """Whether in most rounds others took processors that it needed."""
        there = len(processors(1024)) or self.threads
        return sum(run.measured.disturbed(self.threads, there) for run in self.runs) * 2 > len(self.runs)

    def as_json(self) -> list[dict[str, Any]]:
        """All figures."""
        return [{**asdict(run.figures), **asdict(run.measured)} for run in self.runs]


def in_turns(requests: Mapping[str, tuple[str, Request]], rounds: int) -> dict[str, Runs]:
    """Each of `requests` (by name: way and request) once a round, one after another: slow moments fall on all alike."""
    found: dict[str, list[Run]] = {name: [] for name in requests}
    for _ in range(rounds):
        for name, (way, request) in requests.items():
            found[name].append(run(way, request))
    return {name: Runs(runs, requests[name][1].phase["threads"]) for name, runs in found.items()}


def run(way: str, request: Request) -> Run:
    """One training by `way` (see `benchmarks.training_child`); threads spin as briefly as in a stage's own process."""
    with tempfile.TemporaryDirectory() as folder:
        asked, given = Path(folder) / "request.json", Path(folder) / "result.json"
        asked.write_text(json.dumps(asdict(request)))
        command = [sys.executable, "-m", "benchmarks.training_child", way, str(asked), str(given)]
        measured = measure(command, request.phase["threads"], {"GOMP_SPINCOUNT": SPIN_COUNT})
        return Run(StepFigures(**json.loads(given.read_text())), measured)


def median_ratio(above: Runs, below: Runs, name: str) -> float:
    """The median over rounds of a ratio of two runs of one round."""
    pairs = zip(above.runs, below.runs, strict=True)
    return float(median(getattr(a, name) / getattr(b, name) for a, b in pairs))
