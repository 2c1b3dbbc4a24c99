"""Priors for eflomal: from words, as eflomal-makepriors writes them, to the numbers that the program reads.

Lines of five kinds, fields separated by tabs: `LEX source target count`, `FERF source fertility count`,
`FERR target fertility count`, `HMMF jump count`, `HMMR jump count`; `<NULL>` is the NULL word. Words that are not
in the text are left out. Case is ignored where `alignment.lowercase` says so; eflomal's own commands always ignore it.
"""

import logging
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

from tasks.alignment.backends.program_input import write_lines
from tasks.alignment.links import Int64
from tasks.alignment.word_texts import WordTexts, word_pairs, word_texts
from tasks.contract import InputError

if TYPE_CHECKING:
    from tasks.alignment.aligner import Job

Float64 = npt.NDArray[np.float64]
NULL = "<NULL>"
KINDS = {"LEX": 4, "FERF": 4, "FERR": 4, "HMMF": 3, "HMMR": 3}
"""Fields of a line of each kind."""

logger = logging.getLogger(__name__)


def write_priors(job: "Job", path: Path, target: Path) -> None:
    """Translate the priors in `path` into the program's own format.

    Raises:
        InputError: a line is none of the five kinds, or has no number where one belongs.
    """
    fields = _read(path)
    sides = tuple(word_texts(texts, job.config.lowercase) for texts in job.texts)
    lexical = _lexical(fields["LEX"], sides)
    fertilities = [_fertility(fields[kind], side) for kind, side in (("FERF", sides[0]), ("FERR", sides[1]))]
    jumps = [_summed(fields[kind][0], None, fields[kind][-1]) for kind in ("HMMF", "HMMR")]
    logger.info("eflomal: %d lexical priors used of %d in %s", len(lexical[2]), len(fields["LEX"][2]), path.name)
    header = [job.words.source_words + 1, job.words.target_words + 1]
    header += [len(rows[2]) for rows in (lexical, *jumps, *fertilities)]
    with target.open("wb") as file:
        file.write((" ".join(map(str, header)) + "\n").encode())
        _write(file, lexical)
        for rows in (*jumps, *fertilities):
            _write(file, rows)


def _read(path: Path) -> dict[str, tuple[pa.Array, ...]]:
    """The fields of the lines of each kind: texts or whole numbers, and float64 counts last.

    Raises:
        InputError: see `write_priors`.
    """
    options = csv.ParseOptions(delimiter="\x1f", quote_char=False, escape_char=False)
    columns = csv.ReadOptions(column_names=["line"])
    types = csv.ConvertOptions(column_types={"line": pa.string()}, strings_can_be_null=False)
    try:
        table = csv.read_csv(path, columns, options, types)
    except pa.ArrowInvalid as error:
        raise InputError(f"alignment.priors: {path} cannot be read: {str(error).splitlines()[0]}") from error
    lines = table.column("line").combine_chunks()
    lists = pc.split_pattern(lines, "\t")
    kinds, widths = pc.list_element(lists, 0), pc.list_value_length(lists)
    found: dict[str, tuple[pa.Array, ...]] = {}
    known = np.zeros(len(lists), dtype=bool)
    for kind, width in KINDS.items():
        of_kind = pc.and_(pc.equal(kinds, kind), pc.equal(widths, width))
        known |= of_kind.to_numpy(zero_copy_only=False)
        rows = lists.filter(of_kind)
        texts = [pc.list_element(rows, field) for field in range(1, width)]
        try:
            numbers = texts[-1].cast(pa.float64())
            whole = {"LEX": (), "FERF": (1,), "FERR": (1,)}.get(kind, (0,))
            found[kind] = (*(t.cast(pa.int64()) if i in whole else t for i, t in enumerate(texts[:-1])), numbers)
        except pa.ArrowInvalid as error:
            raise InputError(f"alignment.priors: a {kind} line of {path}: {str(error).splitlines()[0]}") from error
    if not known.all():
        line = int(np.argmin(known))
        raise InputError(
            f"alignment.priors: line {line + 1:,} of {path} is {lines[line].as_py()!r}: expected "
            f"{', '.join(KINDS)} and its fields, separated by tabs (a file made by eflomal-makepriors)"
        )
    return found


def _with_null(side: WordTexts) -> WordTexts:
    null = NULL.lower() if side.lowercase else NULL
    texts = pa.concat_arrays([side.texts, pa.array([null], pa.string())])
    return WordTexts(
        texts, np.append(side.first, len(side.words) + 1), np.append(side.words, np.int32(-1)), side.lowercase
    )


def _lexical(fields: tuple[pa.Array, ...], sides: tuple[WordTexts, ...]) -> tuple[Int64, Int64 | None, Float64]:
    source, target = (_with_null(side) for side in sides)
    entry, one, other = word_pairs((source, source.find(fields[0])), (target, target.find(fields[1])))
    return _summed(one.astype(np.int64) + 1, other.astype(np.int64) + 1, fields[2].to_numpy()[entry])


def _fertility(fields: tuple[pa.Array, ...], side: WordTexts) -> tuple[Int64, Int64 | None, Float64]:
    places = side.find(fields[0])
    own = np.arange(len(side.texts), dtype=np.int64)
    every = WordTexts(side.texts, np.arange(len(own) + 1), own.astype(np.int32), side.lowercase)
    entry, word, _ = word_pairs((side, places), (every, places))
    return _summed(word.astype(np.int64) + 1, fields[1].to_numpy()[entry], fields[2].to_numpy()[entry])


def _summed(
    first: Int64 | pa.Array, second: Int64 | None, counts: Float64 | pa.Array
) -> tuple[Int64, Int64 | None, Float64]:
    """Counts summed by (first, second), ordered by them."""
    one = np.asarray(first, dtype=np.int64)
    other = np.zeros(len(one), dtype=np.int64) if second is None else second
    values = np.asarray(counts, dtype=np.float64)
    order = np.lexsort((other, one))
    one, other, values = one[order], other[order], values[order]
    if len(one):
        opens = np.flatnonzero(np.append(True, (np.diff(one) != 0) | (np.diff(other) != 0)))
        one, other, values = one[opens], other[opens], np.add.reduceat(values, opens)
    return one, None if second is None else other, values


def _write(file: BinaryIO, rows: tuple[Int64, Int64 | None, Float64]) -> None:
    columns = [pa.array(column).cast(pa.string()) for column in rows if column is not None]
    write_lines(file, pc.binary_join_element_wise(*columns, " "))
