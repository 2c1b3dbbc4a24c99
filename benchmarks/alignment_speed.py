"""Speed and memory of every aligner: each measurement is a process of its own, bound to as many processors as threads.

Two clocks:
  files   from two files of words to a file of links, the whole process from start to end, the same work for every
          aligner: both directions, joined (eflomal: both directions' links);
  arrays  the package's own aligners only, from arrays of word numbers to both directions' best partners.
"""

import json
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.table import Table

from benchmarks.alignment_backends import OWN, Backend, environment
from benchmarks.alignment_corpora import Pair, TextFiles, evenly, hansards_first, pool, sample_pairs, write_text
from benchmarks.alignment_results import Bar, Section, table
from benchmarks.measured_child import Measured, measure, processors
from benchmarks.processors import processors_gain

REFERENCES = ("fast_align", "systran")
RATIO_PAIRS, LARGE_PAIRS = 100_000, 1_000_000
FASTER, MORE_THREADS, PLUS_TIME, WARM_SECONDS = 5.0, 1.8, 2.0, 2.0
GROWTH, BUDGET_GIB = 1.3, 4.0
FEW_PAIRS = 10
STARTS = 3
GIB = 2**30

Row = list[str | int | float | None]


@dataclass(frozen=True)
class Texts:
    """Where the texts of the measurements come from and are kept."""

    data: Path | None
    folder: Path

    def hansards_first(self, size: int) -> TextFiles:
        """Text for `speed`."""
        pairs = self._pairs(size)
        return write_text(hansards_first(pairs, size), self.folder / f"first-{size}", len(pairs))

    def evenly(self, size: int) -> TextFiles:
        """Text for `growth`."""
        pairs = self._pairs(size)
        return write_text(evenly(pairs, size), self.folder / f"evenly-{size}", len(pairs))

    def _pairs(self, size: int) -> list[Pair]:
        return sample_pairs(min(size, 1_000_000)) if self.data is None else pool(self.data)

    def note(self) -> str:
        """What the texts are."""
        if self.data is None:
            return "text: the bundled sample (no real text was found)"
        return (
            "text for speed: Hansards (en-fr), then the other corpora by language pair and name; for growth: the same "
            "mixture of all corpora at every size; repeated where a size is larger than 'distinct'"
        )


@dataclass(frozen=True)
class Run:
    """A measurement."""

    text: TextFiles
    backend: Backend
    clock: str
    threads: int
    measured: Measured

    @property
    def disturbed(self) -> bool:
        """Whether its time says nothing."""
        return self.measured.disturbed(self.threads, machine_processors())

    def row(self) -> Row:
        """For a table."""
        seconds, visits = self.measured.seconds, self.text.cells * 2 * self.backend.passes
        return [
            self.text.pairs, self.clock, self.backend.name, self.threads, seconds, self.measured.processor_seconds,
            self.text.pairs / seconds, visits / seconds / 1e6 if visits else None, self.measured.peak_bytes / GIB,
            self.measured.others,
        ]  # fmt: skip


def machine_processors() -> int:
    """Processors of the machine."""
    return os.cpu_count() or 1


COLUMNS = (
    "pairs", "clock", "aligner", "threads", "seconds", "CPU seconds", "pairs/s", "million cells/s", "peak GiB",
    "others' CPUs",
)  # fmt: skip


def from_files(
    backend: Backend, text: TextFiles, threads: int, memory: float | None = None, kernels: Path | None = None
) -> Run:
    """From files to a file; `kernels`: folder of compiled kernels, None for the usual one."""
    variables = environment() | ({} if kernels is None else {"NUMBA_CACHE_DIR": str(kernels)})
    with tempfile.TemporaryDirectory() as folder:
        command = backend.command(text.source, text.target, Path(folder) / "links", threads, memory)
        return Run(text, backend, "files", threads, measure(command, threads, variables))


def from_arrays(backend: Backend, text: TextFiles, threads: int, memory: float | None = None) -> Run:
    """From arrays; the peak is the whole process's, which reads the text first."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result"
        paths = [str(text.source), str(text.target)]
        arguments = ["arrays", backend.name, *paths, str(threads), str(memory or 0), str(result)]
        command = [sys.executable, "-m", "benchmarks.alignment_child", *arguments]
        whole = measure(command, threads, environment())
        inner = json.loads(result.read_text())
    measured = Measured(inner["seconds"], inner["processor_seconds"], whole.peak_bytes, whole.others)
    return Run(text, backend, "arrays", threads, measured)


def runs_of(
    section: Section, backend: Backend, text: TextFiles, threads: Sequence[int], memory: float | None = None
) -> Iterator[Run]:
    """By both clocks, where the aligner has both, for each number of threads; a failure is a missed bar."""
    for count in threads:
        for function in [from_files, from_arrays][: 2 if backend.name in OWN else 1]:
            try:
                yield function(backend, text, count, memory)
            except RuntimeError as error:
                section.notes.append(str(error))
                section.bars.append(Bar(f"{backend.name}, {text.pairs:,} pairs, {_threads(count)}: runs", 0.0, 1.0))


def speed(texts: Texts, found: dict[str, Backend], sizes: Sequence[int], largest: int) -> Section:
    """The section `speed`.

    Args:
        texts: the texts.
        found: aligners.
        sizes: pairs.
        largest: most pairs that aligners of others get.
    """
    section = Section("speed")
    threads = sorted({1, len(processors(1 << 20)) or 1})
    start(section, texts, found)
    gains = [processors_gain(threads[-1])]
    runs = []
    for size in sizes:
        text = texts.hansards_first(size)
        for backend in found.values():
            if backend.name in OWN or size <= largest:
                runs += list(runs_of(section, backend, text, threads))
        section.figures.append({"text": _described(text)})
    section.tables.append(text_table({run.text.pairs: run.text for run in runs}.values()))
    section.tables.append(table("Speed", COLUMNS, [run.row() for run in runs]))
    section.figures += [dict(zip(COLUMNS, run.row(), strict=True)) for run in runs]
    section.notes += [texts.note(), __doc__.split("\n", 2)[2].strip()]
    gains.append(processors_gain(threads[-1]))
    section.notes.append(
        f"{_threads(threads[-1])} of a kernel that shares nothing: {gains[0]:.2f} times one before these runs, "
        f"{gains[1]:.2f} times after. Where that is below the bar on threads, the bar is not judged."
    )
    section.figures.append({"processors_gain": gains})
    ratios(section, runs, threads[-1], min(gains))
    return section


def ratios(section: Section, runs: Sequence[Run], threads: int, possible: float) -> None:
    """Ratios of times, and the bars on them; the bars hold at 100,000 pairs, or at the largest size below it.

    `possible` is what the processors gain on a kernel that shares nothing: a bar above it is not judged.
    """
    by = {(run.text.pairs, run.clock, run.backend.name, run.threads): run for run in runs}
    judged = max((size for size, *_ in by if size <= RATIO_PAIRS), default=0)
    rows: list[Row] = []

    def ratio(label: str, slow: Run, fast: Run) -> Bar:
        disturbed = slow.disturbed or fast.disturbed
        a, b = slow.measured, fast.measured
        rows.append([label, a.seconds / b.seconds, a.processor_seconds / b.processor_seconds, "disturbed" * disturbed])
        return Bar(label, a.seconds / b.seconds, 0.0, disturbed=disturbed)

    for (size, clock, name, count), run in by.items():
        if name not in OWN:
            continue
        for other in sorted({key[2] for key in by} - set(OWN)):
            if (theirs := by.get((size, clock, other, count))) is not None:
                bar = ratio(f"{name} against {other}, {size:,} pairs, {_threads(count)}, {clock}", theirs, run)
                if name == "builtin" and count == 1 and other in REFERENCES and size == judged:
                    section.bars.append(replace(bar, limit=FASTER))
        if count > 1 and (one := by.get((size, clock, name, 1))) is not None:
            bar = ratio(f"{name}, {clock}, {size:,} pairs: {_threads(count)} against 1", one, run)
            if clock == "arrays" and name == "builtin" and size == judged and count == threads:
                disturbed = bar.disturbed or possible < MORE_THREADS
                section.bars.append(replace(bar, limit=MORE_THREADS, disturbed=disturbed))
        if name == "builtin-plus" and (base := by.get((size, clock, "builtin", count))) is not None:
            bar = ratio(f"builtin-plus's time in builtin's, {clock}, {size:,} pairs, {_threads(count)}", run, base)
            if clock == "arrays" and count == 1 and size == judged:
                section.bars.append(replace(bar, limit=PLUS_TIME, at_least=False))
    section.tables.append(table("Ratios", ("what", "of seconds", "of CPU seconds", "valid"), rows))
    section.figures += [
        {"ratio": r[0], "seconds": r[1], "processor_seconds": r[2], "disturbed": bool(r[3])} for r in rows
    ]


def start(section: Section, texts: Texts, found: dict[str, Backend]) -> None:
    """What a process costs beside its text: a text of a few pairs; the least of three."""
    text = texts.hansards_first(FEW_PAIRS)
    rows: list[Row] = []

    def add(label: str, measured: Measured) -> None:
        rows.append([label, measured.seconds, measured.processor_seconds, measured.peak_bytes / GIB])

    for backend in found.values():
        if backend.name == "builtin":
            with tempfile.TemporaryDirectory() as folder:
                add("builtin, first time (kernels compiled)", from_files(backend, text, 1, None, Path(folder)).measured)
        least = min((from_files(backend, text, 1).measured for _ in range(STARTS)), key=lambda m: m.seconds)
        add(backend.name, least)
        if backend.name == "builtin":
            disturbed = least.disturbed(1, machine_processors())
            section.bars.append(Bar("warm start of builtin, seconds", least.seconds, WARM_SECONDS, False, disturbed))
    columns = ("aligner", "seconds", "CPU seconds", "peak GiB")
    title = f"Start: a whole process on {FEW_PAIRS} pairs with compiled kernels on disk, the least of {STARTS}"
    section.tables.append(table(title, columns, rows))
    section.figures += [{"start": row[0], "seconds": row[1], "processor_seconds": row[2]} for row in rows]


def growth(texts: Texts, found: dict[str, Backend], sizes: Sequence[int], budget: float, threads: int) -> Section:
    """The section `growth`: the package's own aligners at growing sizes with one memory budget (GiB)."""
    section = Section("growth")
    threads = threads or len(processors(1 << 20)) or 1
    runs: list[Run] = []
    for size in sizes:
        text = texts.evenly(size)
        own = [found[name] for name in OWN if name in found]
        for backend in own:
            runs += list(runs_of(section, backend, text, [threads], budget))
    rows: list[Row] = []
    base = {(run.backend.name, run.clock): run for run in reversed(runs)}
    for run in runs:
        first = base[run.backend.name, run.clock]
        per_pair, at_first = (r.measured.seconds / r.text.pairs * 1e6 for r in (run, first))
        per_cell, cell_at_first = (r.measured.seconds / r.text.cells * 1e9 for r in (run, first))
        rows.append([*run.row(), per_pair, per_pair / at_first, per_cell / cell_at_first])
        name = f"{run.backend.name}, {run.clock}, {run.text.pairs:,} pairs"
        if run.text.pairs >= LARGE_PAIRS:
            peak = run.measured.peak_bytes / GIB
            section.bars.append(Bar(f"{name}: peak GiB with a budget of {budget:g}", peak, budget, at_least=False))
        if run.text.pairs == LARGE_PAIRS and first.text.pairs == RATIO_PAIRS:
            ratio = per_pair / at_first
            disturbed = run.disturbed or first.disturbed
            section.bars.append(Bar(f"{name}: time per pair in that at 100,000", ratio, GROWTH, False, disturbed))
    section.tables.append(text_table({run.text.pairs: run.text for run in runs}.values()))
    columns = (*COLUMNS, "µs/pair", "in the first's", "per cell in the first's")
    section.tables.append(table(f"Growth with a budget of {budget:g} GiB", columns, rows))
    section.figures += [dict(zip(columns, row, strict=True)) for row in rows]
    section.notes.append(texts.note())
    return section


def text_table(texts: Iterable[TextFiles]) -> Table:
    """What the texts are."""
    rows = [list(_described(text).values()) for text in texts]
    columns = ("pairs", "distinct", "source words a pair", "target words a pair", "cells a pair")
    return table("Texts", columns, rows)


def _described(text: TextFiles) -> dict[str, int | float]:
    source, target = text.words
    return {
        "pairs": text.pairs,
        "distinct": text.distinct,
        "source_words_a_pair": source / text.pairs,
        "target_words_a_pair": target / text.pairs,
        "cells_a_pair": text.cells / text.pairs,
    }


def _threads(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"
