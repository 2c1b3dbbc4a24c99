"""Alignment by a word list: a word is linked to the word that translates it, or that is spelt alike.

Of several such words in the sentence it is the one nearest to the diagonal (by the middles of the words' places), the
first of two as near. A word without one has no link.
"""

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.alignment.backends.declaration import Backend
from tasks.contract import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from tasks.alignment.aligner import Aligned, DirectionName, Job
    from tasks.alignment.backends.nearest_partner import Translations

BLOCK_PAIRS = 100_000

logger = logging.getLogger(__name__)


def read_entries(path: Path) -> "tuple[pa.StringArray, pa.StringArray]":
    """The entries of a word list that have one word on each side: source texts and target texts.

    Entries with several words, and those with an empty side, are counted in the log.

    Raises:
        InputError: the file is no text, or a line has not two columns.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv as csv

    odd: list[csv.InvalidRow] = []

    def stop(row: csv.InvalidRow) -> str:
        odd.append(row)
        return "error"

    options = csv.ParseOptions(
        delimiter="\t", quote_char=False, escape_char=False, ignore_empty_lines=False, invalid_row_handler=stop
    )
    names = ["source", "target"]
    types = csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False)
    try:  # in one thread: only then a row knows its number
        table = csv.read_csv(path, csv.ReadOptions(column_names=names, use_threads=False), options, types)
    except pa.ArrowInvalid as error:
        fault = f"line {odd[0].number} has {odd[0].actual_columns} columns" if odd else str(error).splitlines()[0]
        raise InputError(
            f"alignment.dictionary: {path} cannot be read: {fault} "
            "(one `source<TAB>target` entry a line is needed, in UTF-8)"
        ) from error
    sides = [pc.utf8_trim_whitespace(table.column(name).combine_chunks()) for name in names]
    single = [pc.invert(pc.match_substring_regex(side, r"^$|[\s\p{Z}]")) for side in sides]
    kept = pc.and_(*single)
    logger.info(
        "dictionary: %d entries of %s, %d left out because a side has several words or none",
        table.num_rows,
        path.name,
        table.num_rows - (pc.sum(kept).as_py() or 0),
    )
    return sides[0].filter(kept), sides[1].filter(kept)


def translations(job: "Job", path: Path) -> "Translations":
    """The pairs of words of the job that the list in `path` names, and those with the same text.

    Raises:
        InputError: the file cannot be read, or names no pair of words of the text.
    """
    import numpy as np
    import pyarrow as pa

    from tasks.alignment.backends.nearest_partner import make_translations
    from tasks.alignment.word_texts import word_pairs, word_texts

    entries = read_entries(path)
    source, target = (word_texts(texts, job.config.lowercase) for texts in job.texts)
    entry, one, other = word_pairs((source, source.find(entries[0])), (target, target.find(entries[1])))
    if not len(entry):
        raise InputError(
            f"alignment.dictionary: none of the {len(entries[0]):,} one-word entries of {path} has both its words in "
            "the text: are its columns source, target? does alignment.lowercase fit it?"
        )
    logger.info("dictionary: %d entries have both their words in the text", len(np.unique(entry)))
    alike = word_pairs(
        (source, np.arange(len(source.texts), dtype=np.int64)),
        (target, target.find(pa.array(source.texts))),
    )
    pairs = np.concatenate([one, alike[1]]), np.concatenate([other, alike[2]])
    return make_translations(*pairs, job.words.source_words, job.words.target_words)


def align(job: "Job") -> "Aligned":
    """Link by the word list `job.files['dictionary']`.

    Raises:
        InputError: see `translations`.
    """
    import numpy as np

    from tasks.alignment.aligner import Aligned, offsets_of
    from tasks.alignment.backends.nearest_partner import fill_nearest
    from tasks.alignment.backends.program_output import mapped_best
    from tasks.alignment.links import parts

    known = translations(job, job.files["dictionary"])

    def best_of(direction: "DirectionName", place: int) -> Path:
        path = job.work / f"dictionary.{direction}.best"
        offsets = offsets_of(job.words, direction)
        with path.open("wb") as file:
            for start, end in parts(len(job.words), BLOCK_PAIRS):
                best = np.full(int(offsets[end] - offsets[start]), -1, dtype=np.int16)
                part = job.words.part(start, end)
                source, target = (part.source, part.source_offsets), (part.target, part.target_offsets)
                sides = (target, source) if direction == "forward" else (source, target)
                fill_nearest(*sides, known.of_target if direction == "forward" else known.of_source, best)
                file.write(best.data)
                job.report(place + end / len(job.words), len(job.directions), f"dictionary, {direction}")
        return path

    paths = {direction: best_of(direction, place) for place, direction in enumerate(job.directions)}
    return Aligned({name: mapped_best(path) for name, path in paths.items()}, dict.fromkeys(job.directions, ()))


BACKEND = Backend(
    align=align,
    version=lambda: "built in; reads the word list alignment.dictionary",
    gives_expected_counts=False,
    files=(("dictionary", True),),
)
