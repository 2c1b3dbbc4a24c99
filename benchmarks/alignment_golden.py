"""The built-in aligner against upstream fast_align's golden output: links, figures of every pass, Model 1 counts."""

import re
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.alignment_accuracy import golden_links, read_golden
from benchmarks.alignment_corpora import GoldCorpus, bitext_of, golden_corpora, vocabulary
from benchmarks.alignment_results import Bar, Section, table
from tasks.alignment.aligner import offsets_of
from tasks.alignment.bitext import Bitext
from tasks.alignment.engine.em import Counted, ModelSettings, Resources, Trained, train
from tasks.alignment.links import Int64, Links, links_of_best
from tasks.alignment.symmetrization import symmetrize

DIRECTIONS = (("forward", "fwd"), ("reverse", "rev"))
SAME_LINKS = 97.0  # percent of links
SAME_COUNTS = 0.1  # percent
LEAST_COUNT = 2.0
MODEL_1 = ModelSettings(diagonal=False, iterations=6, alpha=0.0)
"""Pass 6 of the published trans-tokenization's 7 gives its counts."""


def golden(data: Path, folder: Path, threads: int) -> Section:
    """The section `golden`."""
    section = Section("golden")
    links, passes = [], []
    for corpus in golden_corpora(data):
        words = bitext_of(corpus.source, corpus.target)
        with tempfile.TemporaryDirectory() as work:
            trained = train(words, ModelSettings(), Resources(Path(work), threads))
            found = {
                name: links_of_best(trained.best[name], offsets_of(words, name), name == "reverse")
                for name in ("forward", "reverse")
            }
            passes += [[corpus.name, name, *_figures(trained, name, folder, corpus.name)] for name, _ in DIRECTIONS]
        for method, expected in golden_links(folder, corpus.name).items():
            joined = symmetrize(found["forward"], found["reverse"], method)
            links.append([corpus.name, method, len(expected.source), *shares(joined, expected)])
    section.tables.append(
        table("Links, identical in percent", ("pair", "links", "golden", "of the golden", "of either"), links)
    )
    columns = ("pair", "direction", "log-likelihood, %", "perplexity, %", "tension, %", "last tension", "golden")
    section.tables.append(table("Largest difference of the passes from the printed 6 digits", columns, passes))
    section.bars += [Bar(f"{row[0]} {row[1]}: identical links, %", row[4], SAME_LINKS) for row in links]
    section.figures += [dict(zip(("pair", "links", "count", "same", "jaccard"), row, strict=True)) for row in links]
    section.figures += [dict(zip(columns, row, strict=True)) for row in passes]
    _model_1(section, corpus, words, folder, threads)
    return section


def shares(found: Links, expected: Links) -> tuple[float, float]:
    """Links that both have, in percent of the expected ones and of those that either has."""
    a, b = (np.unique((one.pair_ids() * 10_000 + one.source) * 10_000 + one.target) for one in (found, expected))
    both = len(np.intersect1d(a, b, assume_unique=True))
    return 100 * both / len(b), 100 * both / (len(a) + len(b) - both)


def _figures(trained: Trained, name: str, folder: Path, pair: str) -> tuple[float, float, float, float, float]:
    """Largest differences in percent from the log of a direction, then the last tension, ours and upstream's."""
    log = (folder / f"{pair}.{dict(DIRECTIONS)[name]}.log").read_text()

    def printed(label: str) -> np.ndarray:
        return np.array([float(value) for value in re.findall(rf"^\s*{label}: (\S+)$", log, re.MULTILINE)])

    def difference(values: list[float], expected: np.ndarray) -> float:
        return float(100 * np.abs(np.array(values) / expected - 1).max())

    iterations = trained.iterations[name]
    tension = printed("final tension")
    return (
        difference([i.log_likelihood for i in iterations], printed("log_e likelihood")),
        difference([i.perplexity for i in iterations], printed("perplexity")),
        difference([i.tension for i in iterations[-len(tension) :]], tension),
        iterations[-1].tension,
        float(tension[-1]),
    )


def _model_1(section: Section, corpus: GoldCorpus, words: Bitext, folder: Path, threads: int) -> None:
    """Expected counts of plain Model 1 on the last corpus, whose table is there."""
    lines = read_golden(folder, f"{corpus.name}.model1-expected-counts.tsv").decode().split("\n")[:-1]
    rows = [line.split("\t") for line in lines]
    source = {word: number for number, word in enumerate(vocabulary(corpus.source))}
    target = {word: number for number, word in enumerate(vocabulary(corpus.target))}
    pairs = [(source[row[0]], target[row[1]], float(row[3])) for row in rows if row[0] != "<eps>"]
    nulls = [(target[row[1]], float(row[3])) for row in rows if row[0] == "<eps>"]
    with tempfile.TemporaryDirectory() as work:
        counted = Counted(words, np.zeros(len(words), dtype=np.int32), 1)
        trained = train(words, MODEL_1, Resources(Path(work), threads), ("forward",), counted)
        keys, counts = _expected(trained, words)
        wanted = np.array([s * words.target_words + t for s, t, _ in pairs], dtype=np.int64)
        order = np.argsort(keys)
        at = order[np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)]
        found = np.where(keys[at] == wanted, counts[at], 0.0)
        null_counts = trained.null_counts[0][[t for t, _ in nulls]]
    compared = []
    for label, ours, golden_counts in (
        ("word pairs", found, [c for *_, c in pairs]),
        ("NULL", null_counts, [c for _, c in nulls]),
    ):
        differences = 100 * np.abs(ours / np.array(golden_counts) - 1)
        largest = float(differences.max())
        compared.append([label, len(differences), float(np.median(differences)), largest])
        name = f"{corpus.name} Model 1 counts of {label}: largest difference, %"
        section.bars.append(Bar(name, largest, SAME_COUNTS, at_least=False))
    columns = ("counts of", "rows", "median difference, %", "largest, %")
    title = f"Expected counts of Model 1 on {corpus.name}, golden rows with a count of at least {LEAST_COUNT:.0f}"
    section.tables.append(table(title, columns, compared))
    section.figures += [dict(zip(columns, row, strict=True)) for row in compared]


def _expected(trained: Trained, words: Bitext) -> tuple[Int64, np.ndarray]:
    """Keys (source word x target words + target word) and counts of all word pairs."""
    if trained.expected is None:
        raise ValueError("training gave no expected counts")
    blocks = list(trained.expected())
    keys = np.concatenate([block.source.astype(np.int64) * words.target_words + block.target for block in blocks])
    return keys, np.concatenate([block.count for block in blocks])
