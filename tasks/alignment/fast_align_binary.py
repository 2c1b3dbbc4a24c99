"""The upstream fast_align program (https://github.com/clab/fast_align) as an aligner.

Units are written as numbers, so nothing that stands in a text (bars, tabs, spaces) can break its line format.
"""

import logging
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.alignment.cells import Bitext
from tasks.alignment.child_process import ProgramError, run_program
from tasks.alignment.fast_align_model import Iteration, ModelSettings
from tasks.alignment.links import Int32, Int64, Links, parse_pharaoh, parts, sort_links

WRITTEN_PAIRS = 100_000

logger = logging.getLogger(__name__)

_FIGURE = re.compile(r"^\s*(log_e likelihood|perplexity|posterior p0|posterior al-feat|final tension): (\S+)$")
_ITERATION = re.compile(r"^ITERATION (\d+)( \(FINAL\))?$")


def write_input(bitext: Bitext, path: Path) -> None:
    """Write `source ||| target`, one pair a line, words as numbers."""
    with path.open("wb") as file:
        for start, end in parts(len(bitext), WRITTEN_PAIRS):
            sides = (
                _sentences(bitext.source, bitext.source_offsets[start : end + 1]),
                _sentences(bitext.target, bitext.target_offsets[start : end + 1]),
            )
            lines = pc.binary_join_element_wise(*sides, " ||| ").to_pylist()
            file.write(("\n".join(lines) + "\n").encode())


def _sentences(words: Int32, offsets: Int64) -> pa.StringArray:
    texts = pa.array(words[offsets[0] : offsets[-1]]).cast(pa.string())
    return pc.binary_join(pa.ListArray.from_arrays(pa.array((offsets - offsets[0]).astype(np.int32)), texts), " ")


def command(binary: Path, path: Path, settings: ModelSettings, reverse: bool) -> list[str]:
    """The program and its arguments for one direction."""
    arguments = [str(binary), "-i", str(path), "-I", str(settings.iterations)]
    if settings.diagonal:
        arguments += ["-d", "-q", repr(settings.p_null), "-T", repr(settings.tension)]
        arguments += ["-o"] if settings.optimize_tension else []
    if settings.alpha > 0:
        arguments += ["-v", "-a", repr(settings.alpha)]
    return arguments + (["-r"] if reverse else [])


class IterationLog:
    """Reads the figures of the passes from the program's standard error."""

    def __init__(self, settings: ModelSettings, report: Callable[[int], None]) -> None:
        self._rows: list[dict[str, float]] = []
        self._tension = settings.tension
        self._report = report

    def line(self, line: str) -> None:
        """Take one line."""
        logger.info("fast_align: %s", line)
        if match := _ITERATION.match(line):
            self._rows.append({"tension": self._tension, "final": float(match[2] is not None)})
            self._report(int(match[1]) - 1)
        elif (match := _FIGURE.match(line)) and self._rows:
            self._rows[-1][match[1]] = float(match[2])
            if match[1] == "final tension":
                self._tension = float(match[2])

    def iterations(self) -> tuple[Iteration, ...]:
        """The figures of every pass, as printed (6 digits); NaN for what the last pass does not compute."""
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


def align(
    bitext: Bitext,
    binary: Path,
    settings: ModelSettings,
    folder: Path,
    reverse: bool = False,
    report: Callable[[int], None] = lambda iterations: None,
) -> tuple[Links, tuple[Iteration, ...]]:
    """Run the program for one direction.

    Args:
        bitext: the pairs.
        binary: the program.
        settings: the model.
        folder: for its input (`fast_align.txt`, written unless it is there from the other direction) and output.
        reverse: generate the source side given the target side.
        report: called with the number of passes finished.

    Returns:
        The links, and the figures of every pass.

    Raises:
        ProgramError: the program fails, or its output does not fit its input.
    """
    path = folder / "fast_align.txt"
    if not reverse or not path.exists():
        write_input(bitext, path)
    output = folder / f"fast_align.{'reverse' if reverse else 'forward'}"
    log = IterationLog(settings, report)
    arguments = command(binary, path, settings, reverse)
    run_program(arguments, output, log.line)
    data = np.fromfile(output, dtype=np.uint8)
    try:
        links = parse_pharaoh(data)
    except ValueError as error:
        raise ProgramError(f"cannot read the output of {' '.join(arguments)}: {error}") from error
    if len(links) != len(bitext):
        raise ProgramError(
            f"{' '.join(arguments)} gave {len(links):,} lines for {len(bitext):,} sentence pairs: is it fast_align?"
        )
    pairs = links.pair_ids()
    inside = (links.source < np.diff(bitext.source_offsets)[pairs]) & (
        links.target < np.diff(bitext.target_offsets)[pairs]
    )
    if not inside.all():
        line = int(pairs[np.argmin(inside)]) + 1
        raise ProgramError(f"{' '.join(arguments)}: a link on line {line:,} points outside its sentences")
    report(settings.iterations)
    return sort_links(links), log.iterations()
