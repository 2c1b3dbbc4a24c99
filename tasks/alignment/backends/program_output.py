"""Pharaoh output of a program as the best partner of every generated word, read in blocks into a mapped file."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tasks.alignment.aligner import DirectionName, Int16, offsets_of
from tasks.alignment.bitext import Bitext
from tasks.alignment.child_process import ProgramError
from tasks.alignment.pharaoh import parse_pharaoh

BLOCK_BYTES = 16 * 2**20

UInt8 = npt.NDArray[np.uint8]


def best_of_output(output: Path, bitext: Bitext, direction: DirectionName, target: Path, what: str) -> Int16:
    """The best partners that `output` says, written to the file `target` (complete or not there).

    Args:
        output: Pharaoh text, one line for each pair, links source-target whatever the direction.
        bitext: the pairs.
        direction: forward: every target word has at most one link; reverse: every source word.
        target: file for the result.
        what: the command, for errors.

    Returns:
        int16 [generated tokens], mapped from `target`; -1 for no partner.

    Raises:
        ProgramError: the output does not fit the pairs.
    """
    offsets = offsets_of(bitext, direction)
    temporary = target.with_name(target.name + ".tmp")
    with temporary.open("wb") as file:
        line = 0
        for block in _blocks(output, what):
            try:
                links = parse_pharaoh(block)
            except ValueError as error:
                raise ProgramError(f"cannot read the output of {what} after line {line:,}: {error}") from error
            end = line + len(links)
            if end > len(bitext):
                raise _wrong_lines(what, end, bitext)
            part = bitext.part(line, end)
            pairs = links.pair_ids()
            lengths = np.diff(part.source_offsets), np.diff(part.target_offsets)
            inside = (links.source < lengths[0][pairs]) & (links.target < lengths[1][pairs])
            if not inside.all():
                raise ProgramError(
                    f"{what}: a link on line {line + int(pairs[np.argmin(inside)]) + 1:,} points outside its sentences"
                )
            own, partner = (links.target, links.source) if direction == "forward" else (links.source, links.target)
            best = np.full(int(offsets[end] - offsets[line]), -1, dtype=np.int16)
            best[offsets_of(part, direction)[pairs] + own] = partner
            if np.count_nonzero(best >= 0) != len(own):
                raise ProgramError(f"{what}: a word of the generated side has more than one link: is it this program?")
            file.write(best.data)
            line = end
    if line != len(bitext):
        raise _wrong_lines(what, line, bitext)
    temporary.replace(target)
    return mapped_best(target)


def mapped_best(path: Path) -> Int16:
    """The array in a file of `best_of_output`; changes stay in memory."""
    if path.stat().st_size == 0:
        return np.zeros(0, dtype=np.int16)
    return np.asarray(np.memmap(path, dtype=np.int16, mode="c")).view(np.ndarray)


def _wrong_lines(what: str, lines: int, bitext: Bitext) -> ProgramError:
    more = " or more" if lines > len(bitext) else ""
    return ProgramError(f"{what} gave {lines:,}{more} lines for {len(bitext):,} sentence pairs: is it this program?")


def _blocks(path: Path, what: str) -> Iterator[UInt8]:
    """The file in blocks of whole lines; an error where its last line has no end."""
    rest = np.zeros(0, dtype=np.uint8)
    with path.open("rb") as file:
        while len(data := np.frombuffer(file.read(BLOCK_BYTES), dtype=np.uint8)):
            joined = np.concatenate([rest, data])
            ends = np.flatnonzero(joined == ord("\n"))
            cut = int(ends[-1]) + 1 if len(ends) else 0
            if cut:
                yield joined[:cut]
            rest = joined[cut:]
    if len(rest):
        raise ProgramError(f"the output of {what} ends within a line: is the disk of {path.parent} full?")
