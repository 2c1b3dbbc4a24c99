"""Alignment of plain parallel text: reading, training or a trained model, links in blocks, counts, the model saved."""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from configs.schema import AlignmentConfig
from storage.tables import TableWriter
from tasks.alignment.aligner import Aligned, DirectionName, Iteration, Job, Report, WordPairs, no_report
from tasks.alignment.backends import registry
from tasks.alignment.backends.builtin import model_settings
from tasks.alignment.engine.em import Trained
from tasks.alignment.engine.expected import Counted
from tasks.alignment.engine.saved_model import SavedModel, force_align, load_model, save_model
from tasks.alignment.engine.shards import Resources
from tasks.alignment.joined_links import joined_links
from tasks.alignment.links import Links, parts
from tasks.alignment.machine import memory_budget
from tasks.alignment.pharaoh import format_pharaoh, spread
from tasks.alignment.plain_text import Report as ReadReport
from tasks.alignment.plain_text import TextBitext, TextInput, read_text
from tasks.alignment.word_pairs import LinkCounts
from tasks.contract import InputError

BLOCK_PAIRS = 65_536
MODEL_FILE = "text.json"
VERSION = 1
COUNTS = pa.schema(
    [("source", pa.string()), ("target", pa.string()), ("count", pa.float64()), ("reverse_count", pa.float64())]
)
_BOTH: tuple[DirectionName, ...] = ("forward", "reverse")


@dataclass(frozen=True)
class AlignTextRequest:
    """What is to be aligned, how, and what is wanted besides the links.

    Attributes:
        text: the parallel text.
        config: the aligner; `lowercase` and `max_words` are those of `text`.
        work: folder for arrays and checkpoints; of one run at a time.
        model: folder the trained model is saved in.
        force: folder of a saved model to align with, instead of training.
        counts: Parquet file for the counts of word pairs; `config.counts` says which.
        files: local files from outside, by name ('dictionary', 'priors').
    """

    text: TextInput
    config: AlignmentConfig
    work: Path
    model: Path | None = None
    force: Path | None = None
    counts: Path | None = None
    files: Mapping[str, Path] = field(default_factory=dict)

    @property
    def expected(self) -> bool:
        """Whether expected counts are wanted."""
        return self.config.counts == "expected"


@dataclass(frozen=True)
class AlignTextResult:
    """What came of it.

    Attributes:
        lines: lines read, and written.
        aligned: pairs among them that were aligned.
        iterations: by direction, figures of every pass.
        word_pairs: counted word pairs; 0 where none were asked for.
    """

    lines: int
    aligned: int
    iterations: Mapping[DirectionName, tuple[Iteration, ...]]
    word_pairs: int


@dataclass(frozen=True)
class Listener:
    """Told how an alignment goes on.

    Attributes:
        reading: see `tasks.alignment.plain_text.Report`.
        note: called with a sentence on the text.
        training: see `tasks.alignment.aligner.Report`.
        writing: called with the pairs whose links are written, and all of them.
    """

    reading: ReadReport = lambda pairs, share: None
    note: Callable[[str], None] = lambda text: None
    training: Report = no_report
    writing: Callable[[int, int], None] = lambda done, total: None


def align_text(
    request: AlignTextRequest, write: Callable[[pa.StringArray], None], listener: Listener | None = None
) -> AlignTextResult:
    """Align plain text.

    Args:
        request: what, and how.
        write: called with the links of the lines, block by block, from the first line on; one text per line.
        listener: receiver of progress.

    Raises:
        InputError: the text or the options cannot be used.
    """
    listener = Listener() if listener is None else listener
    model = None if request.force is None else load_model(request.force)
    vocabulary = None if model is None else (model.source_words, model.target_words)
    text = read_text(request.text, request.work / "text", vocabulary, request.config.threads, listener.reading)
    for note in text.notes:
        listener.note(note)
    if not len(text.bitext):
        aligned = _nothing(request, text)
    elif model is not None:
        aligned = _with_model(request, text, model, listener.training)
    else:
        aligned = _trained(request, text, listener.training)
    counted = _write_links(request, text, aligned, write, listener)
    return AlignTextResult(text.read, len(text.bitext), aligned.iterations, counted)


def directions_of(config: AlignmentConfig) -> tuple[DirectionName, ...]:
    """The directions that the result depends on.

    Expected counts are those of both; `builtin-plus` trains each with the help of the other.
    """
    if config.counts == "links" and config.aligner != "builtin-plus":
        if config.symmetrization == "forward":
            return ("forward",)
        if config.symmetrization == "reverse":
            return ("reverse",)
    return _BOTH


def _nothing(request: AlignTextRequest, text: TextBitext) -> Aligned:
    """The alignment of no pair."""
    if request.force is None:
        raise InputError(
            "the text has no line" if not text.read else f"none of the {text.read:,} lines can be aligned (see above)"
        )
    empty = {name: np.zeros(0, dtype=np.int16) for name in directions_of(request.config)}
    return Aligned(empty, {}, lambda: iter(()))


def _trained(request: AlignTextRequest, text: TextBitext, report: Report) -> Aligned:
    """The alignment by training on the text; saves the model if wanted."""
    job = Job(
        words=text.bitext,
        units=text.bitext,
        texts=text.words,
        corpus=np.zeros(len(text.bitext), dtype=np.int32),
        directions=directions_of(request.config),
        config=request.config,
        work=_folder(request.work, "aligner"),
        files=request.files,
        report=report,
    )
    aligned = registry.align(job)
    if request.model is not None:
        _save_model(request.model, request, aligned, text.words)
    return aligned


def _with_model(request: AlignTextRequest, text: TextBitext, model: SavedModel, report: Report) -> Aligned:
    """The alignment with a trained model."""
    config = request.config
    resources = Resources(_folder(request.work, "force"), config.threads, memory_budget(config.memory_gib))
    counted = None
    if request.expected:
        counted = Counted(text.bitext, np.zeros(len(text.bitext), dtype=np.int32), 1)
    directions = _BOTH if model.settings.plus else directions_of(config)
    return force_align(model, text.bitext, resources, directions, counted, report)


def _folder(work: Path, name: str) -> Path:
    folder = work / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _save_model(
    folder: Path, request: AlignTextRequest, aligned: Aligned, words: tuple[pa.StringArray, pa.StringArray]
) -> None:
    """Write a model folder, complete or not at all."""
    if not isinstance(aligned, Trained):
        raise InputError(f"the aligner {request.config.aligner!r} gives no model that could be saved")
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    settings = replace(model_settings(request.config), plus=request.config.aligner == "builtin-plus")
    how = {
        "version": VERSION,
        "lowercase": request.text.lowercase,
        "symmetrization": request.config.symmetrization,
        "max_words": request.text.max_words,
    }
    try:
        save_model(aligned, settings, words, partial)
        (partial / MODEL_FILE).write_text(json.dumps(how, indent=1) + "\n", encoding="utf-8")
        partial.rename(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def model_text_settings(folder: Path) -> dict[str, Any]:
    """How the text of a saved model was read: `lowercase`, `max_words`, and its `symmetrization`.

    Raises:
        InputError: the folder holds no model that was saved by this command.
    """
    path = folder / MODEL_FILE
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{folder} holds no model saved with --model ({error})") from error
    if not isinstance(found, dict) or found.get("version") != VERSION:
        raise InputError(f"{path} is of another version; train the model again with --model")
    return found


def _write_links(
    request: AlignTextRequest,
    text: TextBitext,
    aligned: Aligned,
    write: Callable[[pa.StringArray], None],
    listener: Listener,
) -> int:
    """Write the links of every line, and the counts; returns the number of counted word pairs."""
    sums = None
    if request.counts is not None and not request.expected:
        sums = LinkCounts(_folder(request.work, "counts"), memory_budget(request.config.memory_gib) // 4)
    pairs, line = len(text.bitext), 0
    for start, end in parts(pairs, BLOCK_PAIRS):
        links = joined_links(text.bitext, aligned, start, end, request.config.symmetrization)
        if sums is not None:
            sums.add(text.bitext.part(start, end), links, np.zeros(end - start, dtype=np.int32))
        rows = text.rows[start:end]
        until = text.read if end == pairs else int(rows[-1]) + 1
        write(spread(format_pharaoh(links), rows - line, until - line))
        line = until
        listener.writing(end, pairs)
    if not pairs:
        write(spread(format_pharaoh(_no_links()), np.zeros(0, dtype=np.int64), text.read))
    if request.counts is None:
        return 0
    blocks = iter(()) if aligned.expected is None else aligned.expected()
    return _write_counts(request.counts, text.words, blocks if sums is None else sums.result())


def _no_links() -> Links:
    nothing = np.zeros(0, dtype=np.int32)
    return Links(np.zeros(1, dtype=np.int64), nothing, nothing)


def _write_counts(path: Path, words: tuple[pa.StringArray, pa.StringArray], blocks: Iterator[WordPairs]) -> int:
    """Write counted word pairs as texts; returns their number."""
    rows = 0
    partial = path.with_name(path.name + ".partial")
    try:
        with TableWriter(partial, COUNTS) as writer:
            for block in blocks:
                texts = words[0].take(pa.array(block.source)), words[1].take(pa.array(block.target))
                writer.write(pa.table([*texts, pa.array(block.count), pa.array(block.reverse_count)], schema=COUNTS))
                rows += len(block.source)
        partial.rename(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    return rows
