"""The stages `corpus` and `bitext`: read, clean, filter, hash and spill; then deduplicate, split and sample."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from configs.schema import BitextConfig, CorpusConfig, FileSource, HubSource, SampleSource
from storage.tables import write_table
from tasks.contract import InputError, Progress, StageContext, StageResult
from tasks.corpus.clean import clean
from tasks.corpus.deduplicate import OUTCOMES, BudgetLeft, Decided, compact, decide
from tasks.corpus.filters import REASONS, Codes, SideRules, pair_codes, side_codes, side_rules
from tasks.corpus.hashes import SPLITS, pair_hashes, split_by_hash, text_hashes
from tasks.corpus.readers import Folders, locations, read
from tasks.corpus.records import Integers, text_sizes
from tasks.corpus.rejections import Rejected, Rejections
from tasks.corpus.row_groups import TextWriter
from tasks.corpus.spill import Spill, spill_limit

_CLEAN_BYTES = 4 * 1024 * 1024


@dataclass
class _Run:
    """What the two passes share."""

    config: CorpusConfig
    names: tuple[str, ...]
    rules: list[SideRules]
    rejections: Rejections
    read_rows: int = 0
    read_bytes: int = 0
    kept: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SPLITS, 0))
    kept_bytes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SPLITS, 0))


def build(context: StageContext) -> StageResult:
    """Make the splits of the configured text (see `CorpusConfig`, `BitextConfig`) in `context.out`.

    The answer depends on the texts, the order of the sources and the configuration; not on the order of lines within a
    source (but for the line numbers of examples), nor on the working memory.

    Raises:
        InputError: a source cannot be read, or nothing is left to train on.
        OSError: a hub or the network failed.
    """
    config: CorpusConfig = context.config
    names = ("source", "target") if isinstance(config, BitextConfig) else ("text",)
    run = _Run(config, names, side_rules(config), Rejections([source.name for source in config.sources]))
    spill = Spill(context.work / "spill", _spill_schema(names), spill_limit(config.memory_mib), compact)
    started = time.perf_counter()
    _first_pass(run, context, spill)
    middle = time.perf_counter()
    _second_pass(run, context, spill)
    ended = time.perf_counter()
    _check(run)
    write_table(run.rejections.counts(), context.out / "rejections.parquet")
    write_table(run.rejections.examples(), context.out / "rejection_examples.parquet")
    return StageResult(
        summary={
            "read": run.read_rows, "read_bytes": run.read_bytes, "kept": run.kept, "kept_bytes": run.kept_bytes,
            "rejected": run.rejections.by_reason(),
        },
        measurements=[
            _measurement("read and clean", middle - started, run.read_bytes, spill.spilled_bytes),
            _measurement("deduplicate and write", ended - middle, run.read_bytes, spill.spilled_bytes),
        ],
    )  # fmt: skip


def _measurement(step: str, seconds: float, size: int, spilled: int) -> dict[str, Any]:
    return {"step": step, "seconds": seconds, "bytes_per_second": size / max(seconds, 1e-9), "spilled_bytes": spilled}


def _spill_schema(names: Sequence[str]) -> pa.Schema:
    hashes = ["group_high", "group_low"] + (["pair_high", "pair_low"] if len(names) == 2 else [])
    return pa.schema(
        [
            *((name, pa.uint64()) for name in hashes),
            ("split", pa.uint8()),
            ("corpus", pa.uint16()),
            ("line", pa.int64()),
            ("size", pa.int64()),
            ("copies", pa.int64()),
            *((name, pa.string()) for name in names),
        ]
    )


# ---------------------------------------------------------------------------------------------------------- first pass


def _first_pass(run: _Run, context: StageContext, spill: Spill) -> None:
    folders = Folders(context.files, context.inputs)
    sources = run.config.sources
    sizes = [
        sum(at.path.stat().st_size for at in locations(source, context.files)) if isinstance(source, FileSource) else 0
        for source in sources
    ]
    total = float(sum(sizes)) if all(isinstance(source, FileSource) for source in sources) else None
    for index, source in enumerate(sources):
        done = sum(sizes[:index])
        for records in read(source, folders, run.names):
            _take_bad(run, index, records.bad)
            for rows in _bounded(records.rows):
                kept = _filtered(run, index, rows)
                if kept.num_rows:
                    spill.add(_hashed(run, index, source, kept))
            _report(context.progress, done + records.position, total, run)


def _report(progress: Progress, done: int, total: float | None, run: _Run) -> None:
    if total is None:
        progress(run.read_rows, None, "texts")
    else:
        progress(done, total, "bytes", f"{run.read_rows:,} texts")


def _take_bad(run: _Run, corpus: int, bad: pa.RecordBatch) -> None:
    run.read_rows += bad.num_rows
    run.read_bytes += int(np.sum(bad.column("size").to_numpy()))
    reasons = bad.column("reason")
    for reason in sorted(set(reasons.to_pylist())):
        rows = bad.filter(pc.equal(reasons, reason))
        lines, sizes = rows.column("line").to_numpy(), rows.column("size").to_numpy()
        rejected = Rejected(lines, sizes, [rows.column("example")], np.arange(rows.num_rows))
        run.rejections.add(corpus, reason, rejected)


def _bounded(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """`rows` in slices of at most `_CLEAN_BYTES` (or one row), so that cleaning needs bounded memory."""
    total = np.cumsum(rows.column("size").to_numpy())
    start = 0
    while start < rows.num_rows:
        done = int(total[start - 1]) if start else 0
        end = max(start + 1, int(np.searchsorted(total, done + _CLEAN_BYTES, side="right")))
        yield rows.slice(start, end - start)
        start = end


def _filtered(run: _Run, corpus: int, rows: pa.RecordBatch) -> pa.RecordBatch:
    """The cleaned rows that break no rule; the others are counted."""
    run.read_rows += rows.num_rows
    run.read_bytes += int(np.sum(rows.column("size").to_numpy()))
    raw = [rows.column(name) for name in run.names]
    sides = [clean(texts, rules.classes) for texts, rules in zip(raw, run.rules, strict=True)]
    codes = [side_codes(side, rules) for side, rules in zip(sides, run.rules, strict=True)]
    code = codes[0]
    if isinstance(run.config, BitextConfig):
        code = pair_codes(sides, codes, run.config.max_length_ratio)
    _count_rejected(run, corpus, rows, code)
    cleaned = pa.RecordBatch.from_arrays(
        [rows.column("line"), rows.column("size"), *(side.texts for side in sides)], schema=rows.schema
    )
    return cleaned if not code.any() else cleaned.filter(pa.array(code == 0))


def _count_rejected(run: _Run, corpus: int, rows: pa.RecordBatch, code: Codes) -> None:
    lines, sizes = rows.column("line").to_numpy(), rows.column("size").to_numpy()
    raw = [rows.column(name) for name in run.names]
    for value in np.unique(code[code != 0]):
        found = np.flatnonzero(code == value)
        run.rejections.add(corpus, REASONS[value], Rejected(lines[found], sizes[found], raw, found))


def _hashed(
    run: _Run, corpus: int, source: FileSource | HubSource | SampleSource, rows: pa.RecordBatch
) -> pa.RecordBatch:
    """`rows` with hashes, split and corpus: the schema of the spill."""
    texts = [rows.column(name) for name in run.names]
    config = run.config
    group = text_hashes(texts[-1], config.seed)
    hashes = [group[:, 0], group[:, 1]]
    if len(texts) == 2:
        pair = pair_hashes(texts, config.seed)
        hashes += [pair[:, 0], pair[:, 1]]
    split = split_by_hash(group[:, 1], config.validation_share, config.test_share)
    if source.split is not None:
        split[:] = SPLITS.index(source.split)
    arrays = [
        *(pa.array(np.ascontiguousarray(half)) for half in hashes),
        pa.array(split),
        pa.array(np.full(rows.num_rows, corpus, dtype=np.uint16)),
        rows.column("line"),
        rows.column("size"),
        pa.array(np.ones(rows.num_rows, dtype=np.int64)),
        *texts,
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_spill_schema(run.names))


# --------------------------------------------------------------------------------------------------------- second pass


def _second_pass(run: _Run, context: StageContext, spill: Spill) -> None:
    budget = BudgetLeft(run.config.budget.sentences, run.config.budget.bytes)
    schema = pa.schema([*((name, pa.string()) for name in run.names), ("corpus", pa.string())])
    corpora = pa.array([source.name for source in run.config.sources])
    with ExitStack() as stack:
        writers = [stack.enter_context(TextWriter(context.out / f"{split}.parquet", schema)) for split in SPLITS]
        for rows in spill.partitions():
            rows = rows.combine_chunks()
            sizes = np.sum([text_sizes(_column(rows, name)) for name in run.names], axis=0, dtype=np.int64)
            decided = decide(rows, sizes, budget)
            _write_kept(run, rows, sizes, decided, writers, corpora)
            _count_duplicates(run, rows, decided)
            del rows
            pa.default_memory_pool().release_unused()


def _column(rows: pa.Table, name: str) -> pa.Array:
    column = rows.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _write_kept(
    run: _Run, rows: pa.Table, sizes: Integers, decided: Decided, writers: Sequence[TextWriter], corpora: pa.Array
) -> None:
    kept = decided.order[decided.outcome == 0]
    split = rows.column("split").to_numpy()[kept]
    for number, name in enumerate(SPLITS):
        picked = kept[split == number]
        taken = rows.select(["corpus", *run.names]).take(pa.array(picked))
        table = taken.select(list(run.names)).append_column("corpus", corpora.take(_column(taken, "corpus")))
        writers[number].write(table)
        run.kept[name] += len(picked)
        run.kept_bytes[name] += int(sizes[picked].sum())


def _count_duplicates(run: _Run, rows: pa.Table, decided: Decided) -> None:
    rejected = decided.outcome != 0
    if not rejected.any():
        return
    index, outcome = decided.order[rejected], decided.outcome[rejected]
    corpus, lines, sizes, copies = (
        rows.column(name).to_numpy()[index] for name in ("corpus", "line", "size", "copies")
    )
    texts = [_column(rows, name) for name in run.names]
    for key in np.unique(corpus.astype(np.int64) * len(OUTCOMES) + outcome):
        number, reason = divmod(int(key), len(OUTCOMES))
        found = np.flatnonzero((corpus == number) & (outcome == reason))
        rejected_rows = Rejected(lines[found], sizes[found], texts, index[found], int(copies[found].sum()))
        run.rejections.add(number, OUTCOMES[reason], rejected_rows)


def _check(run: _Run) -> None:
    if run.kept["train"] == 0:
        held_out = ", ".join(f"{split} {run.kept[split]:,}" for split in SPLITS[1:])
        raise InputError(
            f"no training text is left of {run.read_rows:,} texts read (kept: {held_out}). Rejected:\n"
            f"{run.rejections.described()}\n"
            "Correct how the sources are read (`format`, `text_column`) or loosen the rule that rejects most "
            "(`scripts`, `min_script_share`, `min_characters`, `max_characters`, `max_length_ratio`)"
        )
