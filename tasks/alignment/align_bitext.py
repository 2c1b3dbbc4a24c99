"""The steps of the alignment stage: units, alignment, then, in blocks of pairs, joined links and their counts."""

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
from tasks.alignment.aligner import Aligned, DirectionName, Job
from tasks.alignment.backends import registry
from tasks.alignment.diagnostics import LinkedWords, write_diagnostics
from tasks.alignment.encoded_bitext import (
    EncodedBitext,
    Units,
    encode_bitext,
    frequencies,
    lowercased,
    unit_tokenizer,
)
from tasks.alignment.joined_links import joined_links
from tasks.alignment.links import Int32, parts, sort_links
from tasks.alignment.machine import memory_budget
from tasks.alignment.pharaoh import format_pharaoh
from tasks.alignment.word_pairs import LinkCounts, write_corpora, write_word_pairs
from tasks.contract import StageContext, StageResult

BLOCK_PAIRS = 100_000
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


def align_bitext(context: StageContext) -> StageResult:
    """Run the stage (see `tasks.alignment.stage`)."""
    config: AlignmentConfig = context.config
    registry.check(config)
    clock = _Clock()
    with clock.step("units"):
        encoded = _encoded(context)
        _write_units(context.out, encoded)
    job = _job(context, encoded)
    with clock.step("alignment"):
        aligned = registry.align(job)
    with clock.step("links"):
        counts = LinkCounts(_folder(context.work, "counts"), memory_budget(config.memory_gib) // 4)
        linked = LinkedWords(encoded.bitext.source_words, encoded.bitext.target_words)
        links = _write_links(context, encoded, aligned, counts, linked)
    with clock.step("files"):
        blocks = counts.result() if aligned.expected is None else aligned.expected()
        word_pairs = write_word_pairs(blocks, context.out / "word_pairs.parquet")
        per_corpus = np.bincount(encoded.corpus, minlength=len(encoded.corpora))
        write_corpora(encoded.corpora, per_corpus, context.out / "corpora.parquet")
        _write_iterations(context.out, aligned)
    with clock.step("diagnostics"):
        figures = write_diagnostics(context.out, linked)
    summary = _summary(config, encoded, aligned)
    return StageResult({**summary, "word_pairs": word_pairs, "links": links, **figures}, clock.rows)


def _folder(work: Path, name: str) -> Path:
    folder = work / name
    folder.mkdir(exist_ok=True)
    return folder


def _encoded(context: StageContext) -> EncodedBitext:
    def tokenizers() -> Any:
        return tuple(
            unit_tokenizer(context.inputs[name], role)
            for name, role in (("source_tokenizer", "source tokenizer"), ("tokenizer", "target tokenizer"))
        )

    return encode_bitext(
        context.inputs["bitext"] / "train.parquet",
        tokenizers,
        _folder(context.work, "units"),
        context.config.unit,
        context.config.max_words,
        lambda done, total: context.progress(done, total, "pairs", "units"),
    )


def _job(context: StageContext, encoded: EncodedBitext) -> Job:
    config = context.config
    texts = (encoded.source_units.texts, encoded.target_units.texts)
    words = lowercased(encoded.bitext, *texts, context.work) if config.lowercase else encoded.bitext
    return Job(
        words=words,
        units=encoded.bitext,
        texts=texts,
        corpus=encoded.corpus,
        directions=_needed(config),
        config=config,
        work=_folder(context.work, "aligner"),
        files=context.files,
        report=lambda done, total, message: context.progress(done, total, "iterations", message),
    )


def _needed(config: AlignmentConfig) -> tuple[DirectionName, ...]:
    """The directions that the answer depends on; expected counts are those of both."""
    if config.counts == "links" and config.symmetrization in ("forward", "reverse"):
        return (config.symmetrization,)
    return ("forward", "reverse")


def _write_links(
    context: StageContext, encoded: EncodedBitext, aligned: Aligned, counts: LinkCounts, linked: LinkedWords
) -> int:
    """Join, count and write the links; returns their number."""
    bitext, total = encoded.bitext, 0
    with TableWriter(context.out / "links.parquet", _LINKS) as writer:
        for start, end in parts(len(bitext), BLOCK_PAIRS):
            links = joined_links(bitext, aligned, start, end, context.config.symmetrization)
            if context.config.symmetrization == "forward":
                links = sort_links(links)
            units = bitext.part(start, end)
            if aligned.expected is None:
                counts.add(units, links, encoded.corpus[start:end])
            linked.add(units, links)
            writer.write(pa.table([pa.array(encoded.rows[start:end]), format_pharaoh(links)], schema=_LINKS))
            total += len(links.source)
            context.progress(end, len(bitext), "pairs", "links")
    return total


def _write_units(out: Path, encoded: EncodedBitext) -> None:
    bitext = encoded.bitext
    write_table(_unit_table(encoded.source_units, bitext.source), out / "source_units.parquet")
    write_table(_unit_table(encoded.target_units, bitext.target), out / "target_units.parquet")


def _unit_table(units: Units, occurrences: Int32) -> pa.Table:
    return pa.table(
        {
            "unit_id": pa.array(np.arange(len(units), dtype=np.int32)),
            "text": units.texts,
            "token_ids": units.token_ids,
            "frequency": pa.array(frequencies(occurrences, len(units))),
        }
    )


def _write_iterations(out: Path, aligned: Aligned) -> None:
    rows = [
        {"direction": name, "iteration": number} | {field: getattr(figures, field) for field in _ITERATIONS.names[2:]}
        for name, iterations in aligned.iterations.items()
        for number, figures in enumerate(iterations, 1)
    ]
    write_table(pa.Table.from_pylist(rows, schema=_ITERATIONS), out / "iterations.parquet")


def _summary(config: AlignmentConfig, encoded: EncodedBitext, aligned: Aligned) -> dict[str, Any]:
    bitext = encoded.bitext
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
    }
    for name, iterations in aligned.iterations.items():
        if iterations:
            summary[f"{name}_perplexity"] = iterations[-1].perplexity
            summary[f"{name}_tension"] = iterations[-1].tension
    return summary
