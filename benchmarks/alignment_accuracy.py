"""Alignment error rate of every aligner on every gold set, side by side."""

import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import zstandard

from benchmarks.alignment_backends import METHODS, OWN_METHOD, all_links
from benchmarks.alignment_corpora import GoldCorpus, GoldSet, gold_corpora, sample_corpus
from benchmarks.alignment_results import Bar, Section, table
from tasks.alignment.aer import alignment_error_rate
from tasks.alignment.links import Links, sort_links
from tasks.alignment.pharaoh import parse_pharaoh

GOLDEN = "fast_align (golden)"
GOLDEN_METHODS = {
    "forward": "fwd", "reverse": "rev", "grow-diag-final-and": "grow-diag-final-and", "intersection": "intersect",
    "union": "union",
}  # fmt: skip
SAME = 0.3  # points of AER within which the builtin must agree with fast_align
BETTER = 3.0  # points of AER that builtin-plus must be below fast_align on en-fr
SHORT = {
    "intersection": "inter", "grow-diag": "gd", "grow-diag-final": "gd-final", "grow-diag-final-and": "gd-final-and",
}  # fmt: skip

Rates = dict[str, float]


def read_golden(folder: Path, name: str) -> bytes:
    """A compressed file of upstream fast_align's golden output."""
    with (folder / f"{name}.zst").open("rb") as file:
        return zstandard.ZstdDecompressor().stream_reader(file).read()


def golden_links(folder: Path, pair: str) -> dict[str, Links]:
    """Upstream fast_align's links of a language pair, by method."""
    return {
        method: sort_links(parse_pharaoh(read_golden(folder, f"{pair}.{name}")))
        for method, name in GOLDEN_METHODS.items()
    }


def rates(links: dict[str, Links], corpus: GoldCorpus, gold: GoldSet) -> Rates:
    """AER in percent by method."""
    span = gold.start, gold.end
    sure, possible = corpus.sure.part(*span), corpus.possible.part(*span)
    return {method: 100 * alignment_error_rate(found.part(*span), sure, possible) for method, found in links.items()}


def corpora(data: Path | None, wanted: str | None) -> Iterator[GoldCorpus]:
    """All corpora with gold links whose name matches `wanted`."""
    for corpus in [] if data is None else gold_corpora(data):
        if wanted is None or re.search(wanted, corpus.name):
            yield corpus
    if wanted is None or re.search(wanted, "sample"):
        yield sample_corpus()


def accuracy(data: Path | None, golden: Path | None, names: Sequence[str], wanted: str | None = None) -> Section:
    """The section `accuracy`.

    Args:
        data: folder of real text; None: the bundled sample only.
        golden: folder of upstream fast_align's output.
        names: aligners.
        wanted: regular expression of the corpora's names.
    """
    section = Section("accuracy")
    found: dict[str, dict[str, Rates]] = {}
    rows: list[list[str | int | float | None]] = []
    for corpus in corpora(data, wanted):
        results: dict[str, tuple[dict[str, Links], float | None]] = {}
        for name in names:
            started = time.perf_counter()
            results[name] = all_links(name, corpus), time.perf_counter() - started
        if golden is not None and corpus.name == "en-fr":
            results[GOLDEN] = golden_links(golden, corpus.name), None
        for gold in corpus.sets:
            for name, (links, seconds) in results.items():
                values = rates(links, corpus, gold)
                found.setdefault(gold.name, {})[name] = values
                rows.append([gold.name, gold.end - gold.start, len(corpus), name, *_columns(values), seconds])
                figures = {"set": gold.name, "gold_pairs": gold.end - gold.start, "pairs": len(corpus)}
                section.figures.append({**figures, "aligner": name, "aer": values, "seconds": seconds})
    rows += [["mean of all real sets", None, None, name, *_columns(_mean(found, name)), None] for name in names]
    columns = ("gold set", "gold", "pairs", "aligner", *[SHORT.get(m, m) for m in METHODS], "its own", "s")
    section.tables.append(table("Alignment error rate, percent", columns, rows))
    section.notes.append("s: training and alignment of all pairs of the corpus, which may be of several gold sets.")
    section.bars += bars(found)
    return section


def _columns(values: Rates) -> list[float | None]:
    return [values.get(method) for method in (*METHODS, OWN_METHOD)]


def _mean(found: dict[str, dict[str, Rates]], name: str) -> Rates:
    sets = [results[name] for gold, results in found.items() if name in results and "sample" not in gold]
    return {method: float(np.mean([values[method] for values in sets])) for method in (sets[0] if sets else ())}


def bars(found: dict[str, dict[str, Rates]]) -> list[Bar]:
    """The bars of accuracy: what fast_align is measured with is its program, else its golden output.

    Where neither is there the builtin stands for it (whose links are the golden ones).
    """
    result = []
    for gold, results in found.items():
        reference = results.get("fast_align") or results.get(GOLDEN)
        for method in METHODS:
            if reference is not None and method in reference and "builtin" in results:
                more = results["builtin"][method] - reference[method]
                result.append(Bar(f"{gold} {method}: AER of builtin above fast_align's", more, SAME, at_least=False))
            base = reference if reference is not None and method in reference else results.get("builtin")
            if "builtin-plus" in results and base is not None:
                less = base[method] - results["builtin-plus"][method]
                limit = BETTER if gold.startswith("en-fr/wpt03-hansards-test") else 0.0
                result.append(Bar(f"{gold} {method}: AER of builtin-plus below fast_align's", less, limit))
    return result
