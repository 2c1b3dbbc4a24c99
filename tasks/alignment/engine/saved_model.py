"""A trained model in files (JSON and Parquet), and alignment of new text with it without training ("force align")."""

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from storage.keys import file_digest
from storage.tables import TableWriter, write_table
from tasks.alignment.aligner import DirectionName, Report, no_report
from tasks.alignment.bitext import Bitext
from tasks.alignment.engine.columns import Array, Column, Resident, Spilled
from tasks.alignment.engine.em import UNIFORM_START, Trained, trained_of
from tasks.alignment.engine.expected import Counted
from tasks.alignment.engine.parallel import Threads
from tasks.alignment.engine.passes import Model, Pass, run_pass
from tasks.alignment.engine.settings import ModelSettings
from tasks.alignment.engine.shards import Resources, Shards, distinct_pairs, make_shards
from tasks.alignment.machine import thread_count
from tasks.contract import InputError

VERSION = 1
_FILES = ("translation.parquet", "source_words.parquet", "target_words.parquet")
_TRANSLATION = pa.schema(
    [("source", pa.int32()), ("target", pa.int32()), ("forward", pa.float32()), ("reverse", pa.float32())]
)


@dataclass(frozen=True)
class SavedModel:
    """A model in a folder.

    Attributes:
        folder: its folder.
        settings: what the model is.
        directions: the directions that were trained.
        tensions: of the forward and of the reverse direction.
        source_words: text of every source word.
        target_words: text of every target word.
        null_source: float32 [source words], p(source word | NULL).
        null_target: float32 [target words].
        jumps: int64, jumps counted in training (`builtin-plus` only).
    """

    folder: Path
    settings: ModelSettings
    directions: tuple[DirectionName, ...]
    tensions: tuple[float, float]
    source_words: pa.StringArray
    target_words: pa.StringArray
    null_source: Array
    null_target: Array
    jumps: Array


def save_model(
    trained: Trained, settings: ModelSettings, words: tuple[pa.StringArray, pa.StringArray], folder: Path
) -> None:
    """Write a trained model: model.json, translation.parquet, source_words.parquet and target_words.parquet.

    Args:
        trained: the training's result; its work folder must still be there.
        settings: what was trained.
        words: texts of the source and of the target words.
        folder: made if it is not there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    model = trained.model
    with TableWriter(folder / "translation.parquet", _TRANSLATION) as writer:
        for source, target, values in _rows(trained.shards, model.translation):
            columns = [pa.array(array) for array in (source, target, values[:, 0], values[:, 1])]
            writer.write(pa.table(columns, schema=_TRANSLATION))
    for name, texts, nulls in zip(("source", "target"), words, (model.null_source, model.null_target), strict=True):
        table = pa.table({"text": texts, "null_probability": pa.array(nulls[: len(texts)])})
        write_table(table, folder / f"{name}_words.parquet")
    told = {
        "version": VERSION,
        "settings": asdict(settings),
        "directions": list(trained.iterations),
        "tensions": list(model.tensions),
        "jumps": model.jumps.tolist(),
        "sha256": {name: file_digest(folder / name) for name in _FILES},
    }
    (folder / "model.json").write_text(json.dumps(told, indent=2) + "\n")


def _rows(shards: Shards, columns: tuple[Column, ...]) -> Iterator[tuple[Array, Array, Array]]:
    """Word pairs with their probabilities, ordered by source, then target, group by group."""
    for start, end in shards.groups():
        firsts, spans = shards.rows(start, end)
        target, values = shards.targets(spans), shards.read(columns, spans)
        source, places = distinct_pairs(start, firsts, target)
        yield source.astype(np.int32), target[places], values[places]


def load_model(folder: Path) -> SavedModel:
    """The model that `save_model` wrote into `folder`.

    Raises:
        InputError: there is none, or it was written by another version.
    """
    try:
        told = json.loads((folder / "model.json").read_text())
        sides = [pq.read_table(folder / f"{name}_words.parquet") for name in ("source", "target")]
    except (OSError, ValueError) as error:
        raise InputError(f"{folder} holds no alignment model: {error}") from error
    if told.get("version") != VERSION:
        raise InputError(
            f"{folder / 'model.json'} is of version {told.get('version')!r}, not {VERSION}: train it again"
        )
    for name, digest in told["sha256"].items():
        if not (folder / name).is_file():
            raise InputError(f"{folder / name} is missing: save the model again")
        if file_digest(folder / name) != digest:
            raise InputError(f"{folder / name} is not the file that was saved with this model: save the model again")
    texts = [side.column("text").combine_chunks() for side in sides]
    nulls = [side.column("null_probability").to_numpy() for side in sides]
    tensions = told["tensions"]
    return SavedModel(
        folder,
        ModelSettings(**told["settings"]),
        tuple(told["directions"]),
        (tensions[0], tensions[1]),
        texts[0],
        texts[1],
        nulls[0],
        nulls[1],
        np.array(told["jumps"], dtype=np.int64),
    )


def force_align(
    model: SavedModel,
    words: Bitext,
    resources: Resources,
    directions: Sequence[DirectionName] = ("forward", "reverse"),
    counted: Counted | None = None,
    report: Report = no_report,
) -> Trained:
    """Align `words` with a trained model: its last pass once more, on other text.

    Args:
        model: the model.
        words: sentence pairs in the model's word numbers; words that the model does not know have numbers from
            the size of its vocabulary on. A pair of words never seen together has probability `UNIFORM_START`.
        resources: folder, threads, memory.
        directions: directions wanted.
        counted: by what to count posteriors; None: no expected counts.
        report: called with what is done of one iteration.

    Raises:
        InputError: the model was not trained in one of the directions.
    """
    missing = [name for name in directions if name not in model.directions]
    if missing:
        raise InputError(
            f"the model in {model.folder} was trained {' and '.join(model.directions)} only, not {missing[0]}"
        )
    with Threads(thread_count(resources.threads)) as threads:
        shutil.rmtree(resources.folder / "force", ignore_errors=True)  # of another text, perhaps
        shards = make_shards(words, resources, threads, "force")
        columns = _probabilities(model, shards, resources)
        nulls = [
            _extended(null, size)
            for null, size in zip(
                (model.null_target, model.null_source), (words.target_words, words.source_words), strict=True
            )
        ]
        prior = (model.settings.diagonal, model.settings.p_null, model.tensions)
        loaded = Model(*prior, columns, nulls[0], nulls[1], model.jumps)
        kind = model.settings.kind(model.settings.iterations)
        job = Pass(words, shards, loaded, True, counted is not None, counted, resources, kind)
        result = run_pass(job, threads, lambda share: report(share, 1, "force align"))
    figures = ([result.iterations[0]], [result.iterations[1]])
    return trained_of(loaded, shards, figures, result, counted, tuple(directions))


def _extended(values: Array, size: int) -> Array:
    result = np.full(max(size, len(values)), UNIFORM_START, dtype=np.float32)
    result[: len(values)] = values
    return result


def _probabilities(model: SavedModel, shards: Shards, resources: Resources) -> tuple[Column, ...]:
    """The model's probabilities of the shards' parameters."""
    path = model.folder / "translation.parquet"
    parts: list[list[Array]] = [[] for _ in shards.shards]
    files = [resources.folder / f"force.{number:05d}.float32" for number in range(len(shards.shards))]
    handles = [] if shards.resident else [file.open("wb") for file in files]
    try:
        for start, end in shards.groups():
            within = (pc.field("source") >= start) & (pc.field("source") < end)
            known = pq.read_table(path, filters=within)
            keys = known.column("source").to_numpy().astype(np.int64) << 32 | known.column("target").to_numpy()
            values = np.stack([known.column(name).to_numpy() for name in ("forward", "reverse")], axis=1)
            firsts, spans = shards.rows(start, end)
            for number, (shard, span, first) in enumerate(zip(shards.shards, spans, firsts, strict=True)):
                rows = np.repeat(np.arange(start, end, dtype=np.int64), np.diff(first))
                found = _looked_up(keys, values, rows << 32 | shard.target.read(*span))
                if shards.resident:
                    parts[number].append(found)
                else:
                    handles[number].write(found.data)
    finally:
        for handle in handles:
            handle.close()
    if shards.resident:
        return (Resident(np.concatenate(parts[0]) if parts[0] else np.zeros((0, 2), dtype=np.float32)),)
    return tuple(Spilled(file, np.float32, 2) for file in files)


def _looked_up(keys: Array, values: Array, wanted: Array) -> Array:
    """Rows of `values` at the `wanted` among the sorted `keys`; `UNIFORM_START` for those not there."""
    result = np.full((len(wanted), 2), UNIFORM_START, dtype=np.float32)
    if len(keys):
        place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        hit = keys[place] == wanted
        result[hit] = values[place[hit]]
    return result
