"""The steps of the alignment stage: units, both directions, symmetrisation, counts, files."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from configs.schema import AlignmentConfig
from storage.tables import TableWriter, write_table
from tasks.alignment import fast_align_binary
from tasks.alignment.backend import find_binary, resolve_aligner
from tasks.alignment.cells import Bitext, Cells, build_cells
from tasks.alignment.encoded_bitext import EncodedBitext, encode_bitext, load_tokenizer, lowercased
from tasks.alignment.fast_align_model import Direction, Iteration, ModelSettings, train
from tasks.alignment.links import Int32, Links, format_pharaoh, parts, sort_links
from tasks.alignment.sums import Float64
from tasks.alignment.symmetrization import symmetrize
from tasks.alignment.unit_table import UnitTable
from tasks.alignment.word_pairs import expected_counts, link_counts
from tasks.contract import Progress, StageContext, StageResult

WRITTEN_PAIRS = 65_536
DIRECTIONS = ("forward", "reverse")
_LINKS = pa.schema([("pair", pa.int64()), ("links", pa.string())])
_ITERATIONS = pa.schema(
    [
        ("direction", pa.string()),
        ("iteration", pa.int32()),
        ("log_likelihood", pa.float64()),
        ("perplexity", pa.float64()),
        ("tension", pa.float64()),
        ("p_null", pa.float64()),
    ]
)


@dataclass
class _Clock:
    """Seconds of each step."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.rows.append({"step": name, "seconds": time.perf_counter() - start})


@dataclass(frozen=True)
class _Alignment:
    """What the aligner gives: joined links, expected counts (built-in only), figures by direction."""

    links: Links
    counts: Float64 | None
    iterations: dict[str, tuple[Iteration, ...]]


def align_bitext(context: StageContext) -> StageResult:
    """Run the stage (see `tasks.alignment.stage`)."""
    config: AlignmentConfig = resolve_aligner(context.config)
    clock = _Clock()
    with clock.step("units"):
        encoded = encode_bitext(
            context.inputs["bitext"] / "train.parquet",
            (load_tokenizer(context.inputs["source_tokenizer"]), load_tokenizer(context.inputs["tokenizer"])),
            context.work,
            config.unit,
            config.max_words,
            lambda done, total: context.progress(done, total, "pairs", "units"),
        )
    words = encoded.bitext
    if config.lowercase:
        words = lowercased(words, encoded.source_units, encoded.target_units)
    cells: Cells | None = None
    if config.aligner == "fast_align":
        alignment = _with_program(config, words, context.work, context.progress, clock)
    else:
        with clock.step("cells"):
            cells = build_cells(words, context.work)
        counted = cells
        if config.lowercase and config.counts == "expected":
            counted = build_cells(encoded.bitext, context.work, "counted_cells")
        alignment = _built_in(config, words, (cells, counted), context.progress, clock)
        cells = counted
    with clock.step("counts"):
        if alignment.counts is not None and cells is not None:
            pairs = expected_counts(cells, alignment.counts)
        else:
            pairs = link_counts(encoded.bitext, alignment.links)
    with clock.step("files"):
        _write(context.out, encoded, alignment, pairs)
    return StageResult(_summary(config, encoded, alignment, (cells, len(pairs[0]))), clock.rows)


def _settings(config: AlignmentConfig) -> ModelSettings:
    return ModelSettings(
        diagonal=config.model == "diagonal",
        iterations=config.iterations,
        alpha=config.alpha if config.variational_bayes else 0.0,
        p_null=config.p_null,
        tension=config.tension,
        optimize_tension=config.optimize_tension,
    )


def _needed(config: AlignmentConfig) -> tuple[str, ...]:
    """The directions that the answer depends on; expected counts are those of the forward direction."""
    if config.symmetrization == "forward":
        return ("forward",)
    if config.symmetrization == "reverse" and config.counts == "links":
        return ("reverse",)
    return DIRECTIONS


def _join(config: AlignmentConfig, links: dict[str, Links]) -> Links:
    if config.symmetrization in DIRECTIONS:
        return sort_links(links[config.symmetrization])
    return symmetrize(links["forward"], links["reverse"], config.symmetrization)


def _built_in(
    config: AlignmentConfig, words: Bitext, cells: tuple[Cells, Cells], progress: Progress, clock: _Clock
) -> _Alignment:
    needed = _needed(config)
    total = config.iterations * len(needed)
    trained: dict[str, Direction] = {}
    for place, name in enumerate(needed):
        report = _Report(progress, place * config.iterations, total, len(words), name)
        counted = cells[1] if name == "forward" else None
        with clock.step(name):
            trained[name] = train(words, cells[0], _settings(config), name == "reverse", counted, report)
    with clock.step("symmetrization"):
        links = _join(config, {name: direction.links() for name, direction in trained.items()})
    counts = trained["forward"].counts if config.counts == "expected" else None
    return _Alignment(links, counts, {name: direction.iterations for name, direction in trained.items()})


def _with_program(
    config: AlignmentConfig, words: Bitext, folder: Path, progress: Progress, clock: _Clock
) -> _Alignment:
    binary = find_binary()
    assert binary is not None  # `resolve_aligner` has found it
    needed = _needed(config)
    links, iterations = {}, {}
    for place, name in enumerate(needed):

        def report(done: int, place: int = place, name: str = name) -> None:
            progress(place * config.iterations + done, config.iterations * len(needed), "iterations", name)

        with clock.step(name):
            links[name], iterations[name] = fast_align_binary.align(
                words, binary, _settings(config), folder, name == "reverse", report
            )
    with clock.step("symmetrization"):
        joined = _join(config, links)
    return _Alignment(joined, None, iterations)


@dataclass
class _Report:
    """Progress of one direction in iterations (fractions within one)."""

    progress: Progress
    before: int
    total: int
    pairs: int
    name: str
    finished: int = 0

    def __call__(self, pairs: int, iteration: Iteration | None) -> None:
        if iteration is None:
            self.progress(self.before + self.finished + pairs / self.pairs, self.total, "iterations", self.name)
            return
        self.finished += 1
        message = f"{self.name}: perplexity {iteration.perplexity:.6g}, tension {iteration.tension:.4g}"
        self.progress(self.before + self.finished, self.total, "iterations", message)


def _write(out: Path, encoded: EncodedBitext, alignment: _Alignment, pairs: tuple[Int32, Int32, Float64]) -> None:
    bitext = encoded.bitext
    write_table(_unit_table(encoded.source_units, bitext.source), out / "source_units.parquet")
    write_table(_unit_table(encoded.target_units, bitext.target), out / "target_units.parquet")
    names = ("source_unit", "target_unit", "count")
    write_table(pa.table(dict(zip(names, map(pa.array, pairs), strict=True))), out / "word_pairs.parquet")
    rows = [
        {"direction": name, "iteration": number} | {field: getattr(figures, field) for field in _ITERATIONS.names[2:]}
        for name, iterations in alignment.iterations.items()
        for number, figures in enumerate(iterations, 1)
    ]
    write_table(pa.Table.from_pylist(rows, schema=_ITERATIONS), out / "iterations.parquet")
    with TableWriter(out / "links.parquet", _LINKS) as writer:
        for start, end in parts(len(bitext), WRITTEN_PAIRS):
            texts = format_pharaoh(alignment.links.part(start, end))
            writer.write(pa.table([pa.array(encoded.rows[start:end]), texts], schema=_LINKS))


def _unit_table(units: UnitTable, occurrences: Int32) -> pa.Table:
    return pa.table(
        {
            "unit_id": pa.array(np.arange(len(units), dtype=np.int32)),
            "text": units.texts(),
            "token_ids": units.token_ids(),
            "frequency": pa.array(np.bincount(occurrences, minlength=len(units)).astype(np.int64)),
        }
    )


def _summary(
    config: AlignmentConfig, encoded: EncodedBitext, alignment: _Alignment, sizes: tuple[Cells | None, int]
) -> dict[str, Any]:
    bitext, (cells, word_pairs) = encoded.bitext, sizes
    lengths = np.diff(bitext.source_offsets), np.diff(bitext.target_offsets)
    summary: dict[str, Any] = {
        "aligner": config.aligner,
        "pairs_read": encoded.read,
        "pairs": len(bitext),
        "pairs_empty": encoded.empty,
        "pairs_too_long": encoded.too_long,
        "source_words": len(bitext.source),
        "target_words": len(bitext.target),
        "source_units": len(encoded.source_units),
        "target_units": len(encoded.target_units),
        "cells": int(np.dot(lengths[0], lengths[1])),
        "parameters": None if cells is None else len(cells.source),
        "word_pairs": word_pairs,
        "links": len(alignment.links.source),
    }
    for name, iterations in alignment.iterations.items():
        if iterations:
            summary[f"{name}_perplexity"] = iterations[-1].perplexity
            summary[f"{name}_tension"] = iterations[-1].tension
    return summary
