"""One section of benchmarks/embeddings.py: the package's way whole, a Python loop's way on a sample, timed.

Run by benchmarks/embeddings.py in a process of its own; writes {seconds, loop_seconds, sample, worst} as JSON.
`worst` is the largest difference between the two on the sample, where both give the same thing.
"""

import json
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from benchmarks.embeddings_inputs import NoPieces, sentences, tokenizer, vocabulary, words
from configs.schema import MappingConfig
from tasks.embeddings.canonical import vocabulary_of
from tasks.embeddings.dense_rows import DenseRows
from tasks.embeddings.init.focus import focus_mapping
from tasks.embeddings.registry import Helper, Ingredients, Tables, TokenPairs, load_initialiser
from tasks.embeddings.source_pieces import SourcePieces
from tasks.embeddings.token_mapping import TokenMapping

Result = dict[str, float]


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    started = time.perf_counter()
    result = run()
    return result, time.perf_counter() - started


def entries_of(mapping: TokenMapping, row: int) -> tuple[np.ndarray, np.ndarray]:
    part = slice(mapping.indptr[row], mapping.indptr[row + 1])
    return mapping.source_ids[part], mapping.weights[part]


def apply(scale: float) -> Result:
    """The mapping times the source table, 50,000 x 32,000 times 32,000 x 4,096."""
    target, source, width = int(50_000 * scale), int(32_000 * scale), int(4096 * scale)
    rng = np.random.default_rng(0)
    rows = np.repeat(np.arange(target), rng.integers(1, 9, size=target))
    mapping = TokenMapping.from_coo(
        rows, rng.integers(0, source, len(rows)), rng.random(len(rows)) + 0.1, (target, source)
    )
    table = torch.randn(source, width, generator=torch.Generator().manual_seed(0))
    found, seconds = timed(lambda: mapping.apply(table))
    sample = range(0, target, 50)

    def loop() -> list[torch.Tensor]:
        rows = []
        for row in sample:
            total = torch.zeros(width)
            for source_id, weight in zip(*(part.tolist() for part in entries_of(mapping, row)), strict=True):
                total += weight * table[source_id]
            rows.append(total)
        return rows

    slow, loop_seconds = timed(loop)
    worst = max(float((found[row] - one).abs().max()) for row, one in zip(sample, slow, strict=True))
    return {"seconds": seconds, "loop_seconds": loop_seconds, "sample": len(sample) / target, "worst": worst}


def counts(scale: float) -> Result:
    """Token counts to the mapping, 50,000 target tokens of which 40 % have no count; the loop: the fallback alone."""
    old, new = tokenizer(int(32_000 * scale), 1), tokenizer(int(50_000 * scale), 2)
    source, target = vocabulary_of(old), vocabulary_of(new)
    rng = np.random.default_rng(0)
    counted = np.flatnonzero(rng.random(len(target)) < 0.6)
    rows = np.repeat(counted, 6)
    pairs = TokenPairs(rows, rng.integers(3, len(source), len(rows)), rng.uniform(5, 5000, len(rows)))
    given = Ingredients(target, source, SourcePieces(old, source), MappingConfig(), pairs, tokenizers=(new, old))
    method = load_initialiser("trans-tokenization")
    mapping, seconds = timed(lambda: method.build(given))
    parts = np.array([name == "fallback-parts" for name in mapping.origins()])
    names = np.array(mapping.origins())
    known = [i for i in np.flatnonzero(np.isin(names, ["aligned", "identical", "smoothed"])) if target.keys[i].strip()]
    sample = np.flatnonzero(parts)[:: max(1, int(parts.sum()) // 100)].tolist()

    def loop() -> list[np.ndarray]:
        found = []
        for row in sample:
            key, taken = target.keys[row], []
            places = [(-len(target.keys[i]), at, i) for i in known for at in starts(target.keys[i], key)]
            for length, at, i in sorted(places):
                if all(at - length <= other or at >= end for other, end, _ in taken):
                    taken.append((at, at - length, i))
            weights = np.zeros(len(source))
            for _, _, i in taken:
                ids, own = entries_of(mapping, i)
                weights[ids] += own / len(taken)
            found.append(weights)
        return found

    slow, loop_seconds = timed(loop)
    worst = worst_difference(mapping, dict(zip(sample, slow, strict=True)))
    return {"seconds": seconds, "loop_seconds": loop_seconds, "sample": len(sample) / int(parts.sum()), "worst": worst}


def starts(part: str, text: str) -> list[int]:
    """Where `part` begins in `text`."""
    return [at for at in range(len(text) - len(part) + 1) if text.startswith(part, at)] if part in text else []


def worst_difference(mapping: TokenMapping, rows: dict[int, np.ndarray]) -> float:
    """The greatest difference of a weight between the mapping and dense rows of weights."""
    worst = 0.0
    for row, weights in rows.items():
        ids, found = entries_of(mapping, row)
        dense = np.zeros(len(weights))
        dense[ids] = found
        worst = max(worst, float(np.abs(dense - weights).max()))
    return worst


def _shared_and_new(scale: float) -> tuple[Any, Any, int, int]:
    shared, new = int(32_000 * scale), int(50_000 * scale)
    texts = words(shared + new, 3)
    return vocabulary(texts[:shared]), vocabulary(texts), shared, new


def _vectors(rows: int, width: int, seed: int) -> np.ndarray:
    """Vectors with a common part, as trained ones have."""
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((rows, width)) + 0.3 * rng.standard_normal(width)).astype(np.float32)


def focus(scale: float) -> Result:
    """FOCUS, 32,000 shared and 50,000 new tokens, 300 dimensions (without the training of the vectors)."""
    source, target, shared, new = _shared_and_new(scale)
    vectors = _vectors(shared + new + 1, 300, 0)
    mapping, seconds = timed(lambda: focus_mapping(vectors, target, source))
    sample = np.arange(shared + 1, shared + new + 1, max(1, new // 100))

    def loop() -> list[np.ndarray]:
        anchors = vectors[1 : shared + 1]
        rows = []
        for row in sample.tolist():
            cosines = anchors @ vectors[row] / np.linalg.norm(anchors, axis=1) / np.linalg.norm(vectors[row])
            ordered = np.sort(cosines.astype(np.float64))[::-1]
            sums = np.cumsum(ordered)
            size = int(np.flatnonzero(1 + np.arange(1, shared + 1) * ordered > sums)[-1]) + 1
            rows.append(np.maximum(cosines - (sums[size - 1] - 1) / size, 0))
        return rows

    slow, loop_seconds = timed(loop)
    whole = [np.concatenate([[0.0], weights]) for weights in slow]  # <unk> is no anchor
    worst = worst_difference(mapping, dict(zip(sample.tolist(), whole, strict=True)))
    return {"seconds": seconds, "loop_seconds": loop_seconds, "sample": len(sample) / new, "worst": worst}


def clp(scale: float, negative: str = "keep") -> Result:
    """CLP, 32,000 shared and 50,000 new tokens, helper of 300 dimensions, source of 300."""
    source, target, shared, new = _shared_and_new(scale)
    helper = Helper(target, Tables(_vectors(shared + new + 1, 300, 0), None))
    tables = Tables(_vectors(shared + 1, 300, 1), None)
    given = Ingredients(
        target, source, NoPieces(), MappingConfig(method="clp", clp={"negative": negative}),  # type: ignore[arg-type]
        source_tables=lambda: tables, helper=lambda: helper,
    )  # fmt: skip
    found, seconds = timed(lambda: load_initialiser("clp").build(given))
    if not isinstance(found, DenseRows):
        raise TypeError("clp gives rows of numbers")
    sample = np.arange(0, len(found.rows), max(1, len(found.rows) // 100))

    def loop() -> list[np.ndarray]:
        anchors = helper.tables.input[: shared + 1]  # <unk> is shared too
        rows = []
        for row in found.rows[sample].tolist():
            own = helper.tables.input[row]
            cosines = anchors @ own / np.linalg.norm(anchors, axis=1) / np.linalg.norm(own)
            weights = np.maximum(cosines, 0) if negative == "drop" else cosines
            rows.append(np.average(tables.input[: shared + 1], axis=0, weights=weights))
        return rows

    slow, loop_seconds = timed(loop)
    worst = max(float(np.abs(found.input[n] - one).max()) for n, one in zip(sample, slow, strict=True))
    return {"seconds": seconds, "loop_seconds": loop_seconds, "sample": len(sample) / len(found.rows), "worst": worst}


def align(scale: float) -> Result:
    """Align over 30,000 sentences; the loop: spans of all pairs of tokens of a sentence."""
    old, new = tokenizer(int(32_000 * scale), 1), tokenizer(int(50_000 * scale), 2)
    source, target = vocabulary_of(old), vocabulary_of(new)
    texts = list(sentences(int(30_000 * scale), 2))

    def build(texts: list[str]) -> TokenMapping:
        with tempfile.TemporaryDirectory() as folder:
            columns = {"text": texts, "corpus": ["made-up"] * len(texts)}
            pq.write_table(pa.table(columns), Path(folder) / "train.parquet")
            given = Ingredients(
                target, source, SourcePieces(old, source), MappingConfig(method="align"),
                tokenizers=(new, old), corpus=Path(folder), work=Path(folder),
            )  # fmt: skip
            return load_initialiser("align").build(given)

    _, seconds = timed(lambda: build(texts))
    sample = texts[:: max(1, len(texts) // 300)]

    def loop() -> dict[int, np.ndarray]:
        found: dict[int, Counter[tuple[int, ...]]] = defaultdict(Counter)
        for text in sample:
            sides = [side(text, add_special_tokens=False, return_offsets_mapping=True) for side in (new, old)]
            for target_id, (start, end) in zip(sides[0]["input_ids"], sides[0]["offset_mapping"], strict=True):
                inside = [
                    token
                    for token, (first, last) in zip(sides[1]["input_ids"], sides[1]["offset_mapping"], strict=True)
                    if (first >= start and last <= end) or (first <= start and last >= end)
                ]
                found[target_id][tuple(inside)] += 1
        rows = {}
        for target_id, tuples in found.items():
            rows[target_id] = np.zeros(len(source))
            for inside, times in tuples.items():
                for token in inside:
                    rows[target_id][token] += times / tuples.total() / len(inside)
        return rows

    slow, loop_seconds = timed(loop)
    mapping = build(sample)
    origins = mapping.origins()
    worst = worst_difference(mapping, {row: weights for row, weights in slow.items() if origins[row] == "align"})
    return {"seconds": seconds, "loop_seconds": loop_seconds, "sample": len(sample) / len(texts), "worst": worst}


SECTIONS: dict[str, Callable[[float], Result]] = {
    "apply": apply, "align": align, "counts": counts, "focus": focus, "clp": clp,
    "clp-drop": lambda scale: clp(scale, "drop"),
}  # fmt: skip

if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[4]))
    Path(sys.argv[2]).write_text(json.dumps(SECTIONS[sys.argv[1]](float(sys.argv[3]))))
