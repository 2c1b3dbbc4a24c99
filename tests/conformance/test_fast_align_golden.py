"""Against the output of the upstream fast_align program (one thread), where the golden files are present."""

import re
from pathlib import Path

import numpy as np
import pytest
import zstandard

from tasks.alignment.aer import alignment_error_rate
from tasks.alignment.bitext import Bitext
from tasks.alignment.engine.em import train
from tasks.alignment.engine.expected import Counted
from tasks.alignment.engine.settings import ModelSettings
from tasks.alignment.engine.shards import Resources
from tasks.alignment.links import Links, links_of_best, sort_links
from tasks.alignment.pharaoh import parse_pharaoh
from tasks.alignment.symmetrization import symmetrize

pytestmark = pytest.mark.shared_data

AER = {"forward": 18.77, "reverse": 18.54, "grow-diag-final-and": 18.35, "intersection": 13.00, "union": 22.40}
DIRECTIONS = {"fwd": "forward", "rev": "reverse"}
JOINED = {"grow-diag-final-and": "grow-diag-final-and", "intersection": "intersect", "union": "union"}


def read(path: Path) -> bytes:
    with path.open("rb") as file:
        return zstandard.ZstdDecompressor().stream_reader(file).read()


def rows(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in read(path).decode().split("\n")[1:] if line]


def numbers(lines: list[str]) -> tuple[np.ndarray, np.ndarray, dict[str, int]]:
    known: dict[str, int] = {}
    words = [line.lower().strip().split() for line in lines]
    flat = np.array([known.setdefault(word, len(known)) for line in words for word in line], dtype=np.int32)
    return flat, np.cumsum([0, *map(len, words)]).astype(np.int64), known


class Corpus:
    """One of the two golden pairs, with both directions trained."""

    def __init__(self, data: Path, golden: Path, pair: str, work: Path) -> None:
        gold = data / "alignments_gold" / "en-fr" / "wpt03-hansards-test.tsv.zst"
        if pair == "en-sw":
            lines = rows(data / "parallel" / "en-sw" / "lafand-train.NC.tsv.zst")
        else:
            lines = rows(gold) + rows(data / "parallel" / "en-fr" / "hansards.tsv.zst")[:50_000]
        self.golden, self.pair, self.gold = golden, pair, gold
        source, source_offsets, self.source_words = numbers([line[0] for line in lines])
        target, target_offsets, self.target_words = numbers([line[1] for line in lines])
        self.bitext = Bitext(
            source, source_offsets, target, target_offsets, len(self.source_words), len(self.target_words)
        )
        self.work = work
        self.trained = train(self.bitext, ModelSettings(), Resources(work))
        self.found = {
            "fwd": links_of_best(self.trained.best["forward"], target_offsets, False),
            "rev": links_of_best(self.trained.best["reverse"], source_offsets, True),
        }

    def links(self, name: str) -> Links:
        return sort_links(parse_pharaoh(read(self.golden / f"{self.pair}.{name}.zst")))


@pytest.fixture(scope="module")
def golden(shared_data: Path) -> Path:
    folder = shared_data.parent / "golden" / "fast_align"
    if not folder.is_dir():
        pytest.skip(f"no golden files at {folder}")
    return folder


@pytest.fixture(scope="module", params=["en-sw", "en-fr"])
def corpus(
    request: pytest.FixtureRequest, shared_data: Path, golden: Path, tmp_path_factory: pytest.TempPathFactory
) -> Corpus:
    return Corpus(shared_data, golden, request.param, tmp_path_factory.mktemp(request.param))


def same_share(found: Links, expected: Links) -> float:
    """Share of links that both have, of those that either has."""

    def codes(links: Links) -> np.ndarray:
        return (links.pair_ids() * 10_000 + links.source) * 10_000 + links.target

    both = np.intersect1d(codes(found), codes(expected))
    return len(both) / (len(found.source) + len(expected.source) - len(both))


@pytest.mark.parametrize("name", ["fwd", "rev"])
def test_figures_of_every_pass(corpus: Corpus, name: str) -> None:
    log = (corpus.golden / f"{corpus.pair}.{name}.log").read_text()

    def printed(label: str) -> list[float]:
        return [float(value) for value in re.findall(rf"^\s*{label}: (\S+)$", log, re.MULTILINE)]

    iterations = corpus.trained.iterations[DIRECTIONS[name]]
    assert [i.log_likelihood for i in iterations] == pytest.approx(printed("log_e likelihood"), rel=1e-4)
    assert [i.perplexity for i in iterations] == pytest.approx(printed("perplexity"), rel=1e-4)
    assert [i.tension for i in iterations] == pytest.approx([4.0, 4.0, *printed("final tension")], rel=1e-4)
    assert [i.p_null for i in iterations[:-1]] == pytest.approx(printed("posterior p0")[:-1], rel=1e-4)
    assert [i.feature for i in iterations[:-1]] == pytest.approx(printed("posterior al-feat")[:-1], rel=1e-4)


def test_links(corpus: Corpus) -> None:
    for name, links in corpus.found.items():
        assert same_share(sort_links(links), corpus.links(name)) > 0.999


def test_symmetrisation_of_the_golden_links_is_identical(corpus: Corpus) -> None:
    forward, reverse = corpus.links("fwd"), corpus.links("rev")
    for method, name in JOINED.items():
        found, expected = symmetrize(forward, reverse, method), corpus.links(name)
        assert (found.offsets == expected.offsets).all()
        assert (found.source == expected.source).all()
        assert (found.target == expected.target).all()


def test_alignment_error_rate(corpus: Corpus) -> None:
    if corpus.pair != "en-fr":
        pytest.skip("gold alignments are of en-fr")
    lines = rows(corpus.gold)
    sure, possible = (parse_pharaoh("".join(line[k] + "\n" for line in lines).encode()) for k in (2, 3))
    forward, reverse = corpus.found["fwd"], corpus.found["rev"]
    for method, expected in AER.items():
        found = symmetrize(forward, reverse, method).part(0, len(lines))
        assert 100 * alignment_error_rate(found, sure, possible) == pytest.approx(expected, abs=0.05)


def test_expected_counts_of_model_1(corpus: Corpus) -> None:
    """The counts that the published trans-tokenization code reads: plain Model 1, pass 6."""
    if corpus.pair != "en-sw":
        pytest.skip("the table is of en-sw")
    settings = ModelSettings(diagonal=False, iterations=6, alpha=0.0)
    counted = Counted(corpus.bitext, np.zeros(len(corpus.bitext), dtype=np.int32), 1)
    trained = train(corpus.bitext, settings, Resources(corpus.work / "model1"), ("forward",), counted)
    blocks = list(trained.expected())
    keys = np.concatenate([b.source.astype(np.int64) * corpus.bitext.target_words + b.target for b in blocks])
    counts = np.concatenate([block.count for block in blocks])
    assert (np.diff(keys) > 0).all()
    lines = [
        line.split("\t") for line in read(corpus.golden / "en-sw.model1-expected-counts.tsv.zst").decode().split("\n")
    ]
    table = [(source, corpus.target_words[target], float(count)) for source, target, _, count in lines[:-1]]
    assert len(table) > 15_000
    null = [(target, count) for source, target, count in table if source == "<eps>"]
    pairs = [(corpus.source_words[source], target, count) for source, target, count in table if source != "<eps>"]
    wanted = np.array([source * corpus.bitext.target_words + target for source, target, _ in pairs])
    found = counts[np.searchsorted(keys, wanted)]
    assert found == pytest.approx(np.array([count for *_, count in pairs]), rel=1e-3)
    assert trained.null_counts[0][[t for t, _ in null]] == pytest.approx(np.array([c for _, c in null]), rel=1e-3)
