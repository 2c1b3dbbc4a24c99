"""The upstream fast_align program (https://github.com/clab/fast_align) as an aligner.

Words are written as numbers, so nothing that stands in a text (bars, tabs, blanks) can break its line format. Built
with OpenMP and run by several threads it adds up in another order each time, so single links may differ between runs;
each direction gets one thread where both run at once on two.
"""

import logging
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from configs.schema import AlignmentConfig
from tasks.alignment.backends.declaration import Backend, find_program
from tasks.contract import InputError

if TYPE_CHECKING:
    from tasks.alignment.aligner import Aligned, DirectionName, Iteration, Job
    from tasks.alignment.bitext import Bitext

VARIABLE = "LANGADAPT_FAST_ALIGN"
MOST_WORDS = 32_766  # in a sentence; fitting the tension it counts positions in 16 bits and never ends on a longer one

logger = logging.getLogger(__name__)

_FIGURE = re.compile(r"^\s*(log_e likelihood|perplexity|posterior p0|posterior al-feat|final tension): (\S+)$")
_ITERATION = re.compile(r"^ITERATION (\d+)( \(FINAL\))?$")
_DONE = re.compile(r"\[(\d+)\]")  # printed every 50,000 lines


def find_binary() -> Path | None:
    """The program named by LANGADAPT_FAST_ALIGN, else `fast_align` on PATH, else None.

    Raises:
        InputError: the variable is set but names no executable file.
    """
    return find_program("fast_align", VARIABLE)


def write_input(bitext: "Bitext", path: Path) -> None:
    """Write `source ||| target`, one pair a line, words as numbers."""
    import pyarrow.compute as pc

    from tasks.alignment.backends.program_input import blocks, sentences, write_lines

    with path.open("wb") as file:
        for start, end in blocks(bitext):
            source = sentences(bitext.source, bitext.source_offsets[start : end + 1])
            target = sentences(bitext.target, bitext.target_offsets[start : end + 1])
            write_lines(file, pc.binary_join_element_wise(source, target, " ||| "))


def command(binary: Path, path: Path, config: AlignmentConfig, reverse: bool) -> list[str]:
    """The program and its arguments for one direction."""
    arguments = [str(binary), "-i", str(path), "-I", str(config.iterations)]
    if config.model == "diagonal":
        arguments += ["-d", "-q", repr(config.p_null), "-T", repr(config.tension)]
        arguments += ["-o"] if config.optimize_tension else []
    if config.variational_bayes:
        arguments += ["-v", "-a", repr(config.alpha)]
    return arguments + (["-r"] if reverse else [])


class IterationLog:
    """Reads the figures of the passes of one direction from the program's standard error."""

    def __init__(
        self, direction: "DirectionName", config: AlignmentConfig, pairs: int, report: Callable[[float], None]
    ) -> None:
        """Nothing read yet; `report` is called with the iterations done (fractions within one)."""
        self._direction = direction
        self._rows: list[dict[str, float]] = []
        self._tension = config.tension
        self._pairs = max(pairs, 1)
        self._report = report

    def line(self, line: str) -> None:
        """Take one line."""
        logger.info("fast_align, %s: %s", self._direction, line)
        if match := _ITERATION.match(line):
            self._rows.append({"tension": self._tension, "final": float(match[2] is not None)})
            self._report(int(match[1]) - 1)
        elif (match := _DONE.search(line)) and self._rows:
            self._report(len(self._rows) - 1 + min(int(match[1]) / self._pairs, 1.0))
        elif (match := _FIGURE.match(line)) and self._rows:
            self._rows[-1][match[1]] = float(match[2])
            if match[1] == "final tension":
                self._tension = float(match[2])

    def iterations(self) -> "tuple[Iteration, ...]":
        """The figures of every pass, as printed (6 digits); NaN for what the last pass does not compute."""
        from tasks.alignment.aligner import Iteration

        nan = float("nan")
        return tuple(
            Iteration(
                log_likelihood=row.get("log_e likelihood", nan),
                perplexity=row.get("perplexity", nan),
                tension=row["tension"],
                p_null=nan if row["final"] else row.get("posterior p0", nan),
                feature=nan if row["final"] else row.get("posterior al-feat", nan),
            )
            for row in self._rows
        )


class _Progress:
    """Adds up the iterations of the directions."""

    def __init__(self, job: "Job") -> None:
        self._done: dict[str, float] = dict.fromkeys(job.directions, 0.0)
        self._job = job

    def __call__(self, direction: str, iterations: float) -> None:
        self._done[direction] = iterations
        total = self._job.config.iterations * len(self._done)
        self._job.report(sum(self._done.values()), total, f"fast_align, {direction}")


def _check_lengths(job: "Job") -> None:
    """Refuse what the program would never end on."""
    import numpy as np

    if job.config.model == "diagonal" and job.config.optimize_tension:
        longest = max(
            int(np.diff(side).max(initial=0)) for side in (job.words.source_offsets, job.words.target_offsets)
        )
        if longest > MOST_WORDS:
            raise InputError(
                f"fast_align never ends on a sentence of {longest:,} words while it fits the tension: set max_words to "
                f"{MOST_WORDS} or less, or do not fit it"
            )


def align(job: "Job") -> "Aligned":
    """Run the program for each direction; both at once where more than one thread is allowed.

    The program is `job.files['fast_align']` where it is there, else the one that `find_binary` finds.

    Raises:
        InputError: the program is not there, or a sentence is too long for it.
        ProgramError: it fails, or its output does not fit its input.
    """
    from tasks.alignment.aligner import Aligned
    from tasks.alignment.backends.program_output import best_of_output
    from tasks.alignment.child_process import Program, run_programs
    from tasks.alignment.machine import thread_count

    binary = job.files.get("fast_align") or find_binary()
    if binary is None:
        raise InputError(f"the program fast_align is not there: {BACKEND.install}")
    _check_lengths(job)
    path = job.work / "fast_align.txt"
    write_input(job.words, path)
    progress = _Progress(job)
    threads = thread_count(job.config.threads)
    at_once = min(threads, len(job.directions))
    logs = {name: IterationLog(name, job.config, len(job.words), partial(progress, name)) for name in job.directions}
    programs = {
        name: Program(
            command(binary, path, job.config, name == "reverse"),
            job.work / f"fast_align.{name}",
            logs[name].line,
            {"OMP_NUM_THREADS": str(max(threads // at_once, 1))},
        )
        for name in job.directions
    }
    for some in (list(programs.values())[start : start + at_once] for start in range(0, len(programs), at_once)):
        run_programs(some)
    best = {
        name: best_of_output(item.output, job.words, name, job.work / f"fast_align.{name}.best", " ".join(item.command))
        for name, item in programs.items()
    }
    for name in job.directions:
        progress(name, job.config.iterations)
    return Aligned(best, {name: log.iterations() for name, log in logs.items()})


BACKEND = Backend(
    align=align,
    version=lambda: "",
    gives_expected_counts=False,
    deterministic=False,
    install=(
        "build it from https://github.com/clab/fast_align (a C++ compiler and CMake), then put it on PATH or name it "
        f"by {VARIABLE}"
    ),
    program=find_binary,
)
