"""The program eflomal (R. Östling, J. Tiedemann: Efficient Word Alignment with Markov Chain Monte Carlo, 2016).

Its C program is run as a child; its Python package (GPL-3) is never imported. Words are written as numbers, in the
program's own format, so that nothing that stands in a text matters and no text is held in memory. It draws its random
numbers from the system: the same input gives other links each time, and so another artifact of the same key.

Iterations are the program's own rule and NULL its own default; of the model settings only `model` is read ('model1':
its IBM Model 1 alone; 'diagonal': all of its model, which has a hidden Markov model and fertilities instead of the
diagonal).
"""

import importlib.util
import logging
import re
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.alignment.backends.declaration import Backend, find_program
from tasks.contract import InputError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from tasks.alignment.aligner import Aligned, Job
    from tasks.alignment.bitext import Bitext
    from tasks.alignment.links import Int32, Int64

VARIABLE = "LANGADAPT_EFLOMAL"
MOST_WORDS = 1024  # in a sentence; the program ends with an error on a longer one
SAMPLERS = 3
NULL_PRIOR = 0.2
LENGTH = 5000.0  # iterations of the last model times the square root of the number of pairs

logger = logging.getLogger(__name__)

_BEGUN = re.compile(r"^Aligning with model (\d+) \((\d+) iterations\)")
_DONE = re.compile(r"^Done: ")


def find_binary() -> Path | None:
    """The program named by LANGADAPT_EFLOMAL, else `eflomal` on PATH, else the one in the package eflomal, or None.

    Raises:
        InputError: the variable is set but names no executable file.
    """
    found = find_program("eflomal", VARIABLE)
    if found is not None:
        return found
    package = importlib.util.find_spec("eflomal")  # does not import it
    if package is None or package.origin is None:
        return None
    inside = Path(package.origin).parent / "bin" / "eflomal"
    return inside.resolve() if inside.is_file() else None


def version() -> str:
    """Version of the installed package, "" where the program comes from elsewhere."""
    try:
        return metadata.version("eflomal")
    except metadata.PackageNotFoundError:
        return ""


def iterations(pairs: int, model: str) -> tuple[int, int, int]:
    """Sampling iterations of the three models (words, Markov, fertility) that the program's own command chooses."""
    last = max(2, round(LENGTH / max(pairs, 1) ** 0.5))
    if model == "model1":
        return last, 0, 0
    quarter = max(1, last // 4)
    return max(2, quarter), quarter, last


def write_sentences(words: "Int32", offsets: "Int64", sides: "tuple[Bitext, int]", path: Path) -> int:
    """Write one side in the program's format: a line `sentences words`, then `length number number …` for each.

    Args:
        words: int32 [tokens] of the side.
        offsets: int64 [N + 1].
        sides: the pairs that the side belongs to, and the size of the side's vocabulary.
        path: the file.

    Returns:
        Pairs with a side of more than `MOST_WORDS` words, which are written as empty.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from tasks.alignment.backends.program_input import blocks, sentences, write_lines

    bitext, vocabulary = sides
    long = 0
    with path.open("wb") as file:
        file.write(b"%d %d\n" % (len(bitext), vocabulary))
        for start, end in blocks(bitext):
            lengths = np.diff(offsets[start : end + 1])
            left_out = too_long(bitext, start, end)
            long += int(left_out.sum())
            texts = sentences(words, offsets[start : end + 1])
            texts = pc.if_else(pa.array(left_out), "", texts)
            numbers = pa.array(np.where(left_out, 0, lengths)).cast(pa.string())
            write_lines(file, pc.utf8_rtrim(pc.binary_join_element_wise(numbers, texts, " "), " "))
    return long


def too_long(bitext: "Bitext", start: int, end: int) -> "npt.NDArray[np.bool_]":
    """Pairs of a range with a side of more than `MOST_WORDS` words: bool [end - start]."""
    import numpy as np

    source, target = (np.diff(offsets[start : end + 1]) for offsets in (bitext.source_offsets, bitext.target_offsets))
    return np.maximum(source, target) > MOST_WORDS


def command(binary: Path, folder: Path, job: "Job", priors: Path | None) -> list[str]:
    """The program and its arguments."""
    model = 1 if job.config.model == "model1" else 3
    arguments = [str(binary), "-m", str(model), "-n", str(SAMPLERS), "-N", str(NULL_PRIOR)]
    arguments += ["-s", str(folder / "eflomal.source"), "-t", str(folder / "eflomal.target")]
    for number, count in enumerate(iterations(len(job.words), job.config.model)[:model], start=1):
        arguments += [f"-{number}", str(count)]
    for name in job.directions:
        arguments += ["-f" if name == "forward" else "-r", str(folder / f"eflomal.{name}")]
    return arguments + ([] if priors is None else ["-p", str(priors)])


class _Log:
    """Progress from the program's standard error: sampling iterations of the finished models."""

    def __init__(self, total: int, report: Callable[[float, float, str], None]) -> None:
        self._waiting: list[int] = []
        self._done, self._total, self._report = 0, total, report

    def line(self, line: str) -> None:
        """Take one line."""
        logger.info("eflomal: %s", line)
        if match := _BEGUN.match(line):
            self._waiting.append(int(match[2]))
            self._report(self._done, self._total, f"eflomal, model {match[1]}")
        elif _DONE.match(line) and self._waiting:
            self._done = min(self._done + self._waiting.pop(0), self._total)
            self._report(self._done, self._total, "eflomal")


def align(job: "Job") -> "Aligned":
    """Run the program, which does both directions at once.

    Raises:
        InputError: the program is not there, or the file of priors cannot be read.
        ProgramError: it fails, or its output does not fit its input.
    """
    from tasks.alignment.aligner import Aligned
    from tasks.alignment.backends.eflomal_priors import write_priors
    from tasks.alignment.backends.program_output import best_of_output
    from tasks.alignment.child_process import Program, run_programs
    from tasks.alignment.machine import thread_count

    binary = job.files.get("eflomal") or find_binary()
    if binary is None:
        raise InputError(f"the program eflomal is not there: {BACKEND.install}")
    words, folder = job.words, job.work
    write_sentences(words.source, words.source_offsets, (words, words.source_words), folder / "eflomal.source")
    long = write_sentences(words.target, words.target_offsets, (words, words.target_words), folder / "eflomal.target")
    if long:
        logger.warning("%d pairs with a side of more than %d words get no links from eflomal", long, MOST_WORDS)
    priors = None
    if "priors" in job.files:
        priors = folder / "eflomal.priors"
        write_priors(job, job.files["priors"], priors)
    total = sum(iterations(len(words), job.config.model)) * len(job.directions)
    log = _Log(total, job.report)
    arguments = command(binary, folder, job, priors)
    threads = {"OMP_NUM_THREADS": str(thread_count(job.config.threads))}
    run_programs([Program(arguments, folder / "eflomal.out", log.line, threads)])
    best = {
        name: best_of_output(folder / f"eflomal.{name}", words, name, folder / f"eflomal.{name}.best", "eflomal")
        for name in job.directions
    }
    job.report(total, total, "eflomal")
    return Aligned(best, dict.fromkeys(job.directions, ()))


BACKEND = Backend(
    align=align,
    version=version,
    gives_expected_counts=False,
    deterministic=False,
    files=(("priors", False),),
    install=(
        "pip install 'langadapt[eflomal]' (needs a C compiler), or build it from "
        f"https://github.com/robertostling/eflomal and put it on PATH or name it by {VARIABLE}"
    ),
    program=find_binary,
)
