"""Counting: links -> counts of word pairs -> counts of token pairs, against plain Python dictionaries in one run.

A gate with --least-ratio. Real links where the shared data is there (English-Swahili news with fast_align's own links,
../shared), otherwise the bundled sample with its exact links; repeated to `--pairs`. Units are words; their tokens are
pieces of at most 4 characters. Both sides are single-threaded and start from what they like best: flat arrays here,
lists of Python integers and tuples there (made beforehand, not timed). Two references:
  1. 'per link': each link is shared out to its token pairs (METHODS 1.3 as it is written);
  2. 'word pairs first': links are counted in a dictionary of word pairs, which are then shared out.
Trap: kernels are compiled at the first call; a warm-up on few pairs takes care of it.

    python benchmarks/counting.py [--pairs 1000000] [--least-ratio 50]
"""

import argparse
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import zstandard

from configs.schema import SampleConfig
from storage.tables import read_batches
from tasks.alignment.bitext import Bitext
from tasks.alignment.counts import TokenCounts, UnitTokens
from tasks.alignment.links import Int32, Int64, Links
from tasks.alignment.pharaoh import parse_pharaoh
from tasks.alignment.sums import Float64
from tasks.alignment.word_pairs import LinkCounts
from tasks.contract import no_progress
from tasks.sample.table import write_pairs
from tasks.sample.words import split_words

SHARED = Path(__file__).resolve().parents[2] / "shared"
PIECE = 4  # characters of a token
Answer = TypeVar("Answer")
Counts = dict[tuple[int, int], list[float]]  # (target token, source token): all-to-all and in order


@dataclass
class Case:
    """Aligned pairs: N distinct ones, and how often they are gone through."""

    name: str
    units: Bitext
    links: Links
    tokens: tuple[list[list[int]], list[list[int]]]
    pairs: int

    def parts(self) -> list[int]:
        """Pairs taken in each pass over the N."""
        whole, rest = divmod(self.pairs, len(self.units))
        return [len(self.units)] * whole + [rest] * (rest > 0)


def real_links(name: str) -> tuple[str, list[list[str]], list[list[str]], Links] | None:
    """Words of both sides and links from the shared data, None where it is absent."""
    data = Path(os.environ.get("LANGADAPT_DATA_ROOT", SHARED / "data"))
    text = data / "parallel" / name / "lafand-train.NC.tsv.zst"
    links = data.parent / "golden" / "fast_align" / f"{name}.grow-diag-final-and.zst"
    if not (text.is_file() and links.is_file()):
        return None
    rows = [line.split("\t") for line in unpacked(text).decode().split("\n")[1:] if line]
    sides = [[row[side].lower().split() for row in rows] for side in (0, 1)]
    return f"{name}, links of fast_align", sides[0], sides[1], parse_pharaoh(unpacked(links))


def unpacked(path: Path) -> bytes:
    with path.open("rb") as file:
        return zstandard.ZstdDecompressor().stream_reader(file).read()


def sample_links(pairs: int) -> tuple[str, list[list[str]], list[list[str]], Links]:
    """The same from the bundled sample."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pairs.parquet"
        write_pairs(SampleConfig(sentences=pairs), path, no_progress, 8192)
        rows = [row for batch in read_batches(path) for row in batch.to_pylist()]
    text = "".join(f"{row['alignment']}\n" for row in rows)
    sides = [[split_words(row[side].lower()) for row in rows] for side in ("source", "target")]
    return "bundled sample", sides[0], sides[1], parse_pharaoh(text.encode())


def numbered(sentences: list[list[str]]) -> tuple[Int32, Int64, list[list[int]]]:
    """Unit of every word, sentence boundaries, token ids of every unit."""
    units: dict[str, int] = {}
    pieces: dict[str, int] = {}
    flat = np.array([units.setdefault(word, len(units)) for words in sentences for word in words], dtype=np.int32)
    tokens = [
        [pieces.setdefault(word[k : k + PIECE], len(pieces)) for k in range(0, len(word), PIECE)] for word in units
    ]
    return flat, np.cumsum([0, *map(len, sentences)]).astype(np.int64), tokens


def make_case(pairs: int) -> Case:
    name, source, target, links = real_links("en-sw") or sample_links(min(pairs, 30_000))
    (s, s_offsets, s_tokens), (t, t_offsets, t_tokens) = numbered(source), numbered(target)
    units = Bitext(s, s_offsets, t, t_offsets, len(s_tokens), len(t_tokens))
    return Case(name, units, links, (s_tokens, t_tokens), pairs)


def unit_tokens(tokens: list[list[int]]) -> UnitTokens:
    ids = np.array([token for unit in tokens for token in unit], dtype=np.int32)
    return UnitTokens(ids, np.cumsum([0, *map(len, tokens)]).astype(np.int64))


def ours(case: Case) -> tuple[Int32, Int32, Float64]:
    """Target tokens, source tokens, both counts."""
    words = LinkCounts()
    corpus = np.zeros(len(case.units), dtype=np.int32)
    for end in case.parts():
        words.add(case.units.part(0, end), case.links.part(0, end), corpus[:end])
    tokens = TokenCounts(unit_tokens(case.tokens[0]), unit_tokens(case.tokens[1]))
    for block in words.result():
        tokens.add(block.source, block.target, block.count)
    blocks = list(tokens.result())
    target, source, counts = (np.concatenate([block[k] for block in blocks]) for k in range(3))
    return target, source, counts


Sentence = tuple[list[int], list[int], list[tuple[int, int]]]


def sentences(case: Case) -> list[Sentence]:
    """What the references go through: source units, target units and links of each distinct pair, as Python objects."""
    units, links = case.units, case.links
    source = np.split(units.source, units.source_offsets[1:-1])
    target = np.split(units.target, units.target_offsets[1:-1])
    pairs = np.split(np.stack([links.source, links.target], axis=1), links.offsets[1:-1])
    return [
        (s.tolist(), t.tolist(), [(i, j) for i, j in p.tolist()]) for s, t, p in zip(source, target, pairs, strict=True)
    ]


def share_out(source: list[int], target: list[int], count: float, result: Counts) -> None:
    """METHODS 1.3 for one pair of units."""
    n, m = len(source), len(target)
    for j, target_id in enumerate(target):
        low, high = j * n / m, (j + 1) * n / m
        for i, source_id in enumerate(source):
            found = result[target_id, source_id]
            found[0] += count / n
            overlap = min(high, i + 1) - max(low, i)
            if overlap > 0:
                found[1] += count * overlap * m / n


def per_link(case: Case, lists: list[Sentence]) -> Counts:
    result: Counts = defaultdict(lambda: [0.0, 0.0])
    source_tokens, target_tokens = case.tokens
    for end in case.parts():
        for source, target, links in lists[:end]:
            for i, j in links:
                share_out(source_tokens[source[i]], target_tokens[target[j]], 1.0, result)
    return result


def word_pairs_first(case: Case, lists: list[Sentence]) -> Counts:
    words: dict[tuple[int, int], int] = defaultdict(int)
    for end in case.parts():
        for source, target, links in lists[:end]:
            for i, j in links:
                words[source[i], target[j]] += 1
    result: Counts = defaultdict(lambda: [0.0, 0.0])
    for (s, t), count in words.items():
        share_out(case.tokens[0][s], case.tokens[1][t], count, result)
    return result


def difference(found: tuple[Int32, Int32, Float64], expected: Counts) -> float:
    """Largest difference of a count, relative to the count where that is more than 1."""
    target, source, counts = found
    keys = list(zip(target.tolist(), source.tolist(), strict=True))
    if len(keys) != len(expected) or any(key not in expected for key in keys):
        return float("inf")
    other = np.array([expected[key] for key in keys])
    return float((np.abs(counts - other) / np.maximum(other, 1)).max())


def seconds_of(run: Callable[[], Answer]) -> tuple[float, Answer]:
    start = time.perf_counter()
    answer = run()
    return time.perf_counter() - start, answer


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--least-ratio", type=float, help="fail below this ratio to the reference 'per link'")
    arguments = parser.parse_args()
    case = make_case(arguments.pairs)
    lists = sentences(case)
    ours(Case(case.name, case.units, case.links, case.tokens, 1000))
    own, found = min((seconds_of(lambda: ours(case)) for _ in range(3)), key=lambda run: run[0])
    links = sum(int(case.links.offsets[end]) for end in case.parts())
    print(f"{case.name}: {case.pairs:,} pairs, {links:,} links, {len(found[0]):,} token pairs")
    print(f"{'':20}{'seconds':>10}{'ns a link':>12}{'ratio':>8}{'largest difference':>22}")
    print(f"{'langadapt':20}{own:10.3f}{own / links * 1e9:12.1f}{1:8.1f}")
    ratios, worst = [], 0.0
    for name, reference in (("per link", per_link), ("word pairs first", word_pairs_first)):
        spent, expected = seconds_of(partial(reference, case, lists))
        far = difference(found, expected)
        ratios.append(spent / own)
        worst = max(worst, far)
        print(f"{name:20}{spent:10.3f}{spent / links * 1e9:12.1f}{spent / own:8.1f}{far:22.2e}")
    if worst > 1e-9:
        print("the counts differ")
        return 1
    return int(arguments.least_ratio is not None and ratios[0] < arguments.least_ratio)


if __name__ == "__main__":
    sys.exit(main())
