"""Expected counts of word pairs as the published trans-tokenization code reads them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tasks.contract import InputError
from tasks.embeddings.text_lines import numbered_lines

JOINT = "—"
NULL_WORD = "<eps>"
BEAM = 4.0


@dataclass(frozen=True)
class WordCounts:
    """Word pairs with their probability and expected count under IBM Model 1.

    Attributes:
        source: source words, each the strings of its tokens joined by an em dash.
        target: target words, the same.
        log_probability: float64 [pairs]: ln p(target | source).
        counts: float64 [pairs]: expected counts.
    """

    source: Sequence[str]
    target: Sequence[str]
    log_probability: NDArray[np.float64]
    counts: NDArray[np.float64]

    def pruned(self) -> "WordCounts":
        """The pairs with p(t|s) >= p_max(s)^4, NULL left out: those that the published aligner writes.

        Done twice, it changes nothing: a source word's most probable pair always stays.
        """
        number: dict[str, int] = {}
        of_pair = np.array([number.setdefault(word, len(number)) for word in self.source], dtype=np.int64)
        best = np.full(len(number), -np.inf)
        np.maximum.at(best, of_pair, self.log_probability)
        kept = np.flatnonzero(self.log_probability >= BEAM * best[of_pair])
        kept = np.array(
            [n for n in kept.tolist() if self.source[n] != NULL_WORD and self.target[n] != NULL_WORD], dtype=np.int64
        )
        return WordCounts(
            [self.source[n] for n in kept.tolist()],
            [self.target[n] for n in kept.tolist()],
            self.log_probability[kept],
            self.counts[kept],
        )


def read_translation_table(path: Path) -> WordCounts:
    """The table that the published code's aligner writes: source, target, ln p(t|s), expected count; tab-separated.

    Plain, .gz or .zst.

    Raises:
        InputError: it cannot be read, a line has not four fields, or the last two are no finite numbers.
    """
    rows: list[tuple[str, str, float, float]] = []
    for number, line in numbered_lines(path, "translation table"):
        if not line:
            continue
        try:
            source, target, probability, count = line.split("\t")
            rows.append((source, target, float(probability), float(count)))
        except ValueError as error:
            raise InputError(
                f"translation table {path.name}, line {number}: {line.strip()!r}; expected "
                "`source<TAB>target<TAB>ln p<TAB>count` (the fork FremyCompany/fast_align writes the count)"
            ) from error
    log_probability, counts = (np.array([row[n] for row in rows], dtype=np.float64) for n in (2, 3))
    if not (np.isfinite(log_probability).all() and np.isfinite(counts).all()):
        raise InputError(f"translation table {path.name}: probabilities and counts must be finite numbers")
    return WordCounts([row[0] for row in rows], [row[1] for row in rows], np.minimum(log_probability, 0.0), counts)


def word_counts_of_alignment(folder: Path, source_tokens: Sequence[str], target_tokens: Sequence[str]) -> WordCounts:
    """The expected counts of an alignment made here; p(t|s) is the pair's share of the source word's counts.

    Counts are rounded to 6 significant digits, as the published aligner prints them.

    Args:
        folder: an alignment: word_pairs.parquet, source_units.parquet, target_units.parquet.
        source_tokens: strings of the source tokens by id.
        target_tokens: strings of the target tokens by id.
    """
    pairs = pq.read_table(folder / "word_pairs.parquet", columns=["source_unit", "target_unit", "count"])
    pairs = pairs.group_by(["source_unit", "target_unit"]).aggregate([("count", "sum")])
    pairs = pairs.sort_by([("source_unit", "ascending"), ("target_unit", "ascending")])
    source, target = (pairs[name].to_numpy() for name in ("source_unit", "target_unit"))
    counts = pairs["count_sum"].to_numpy()
    positive = counts > 0
    source, target, counts = source[positive], target[positive], counts[positive]
    log_probability = np.log(counts / np.bincount(source, weights=counts)[source])
    words = [
        _joined(folder / f"{side}_units.parquet", tokens)
        for side, tokens in (("source", source_tokens), ("target", target_tokens))
    ]
    printed = np.array([float(f"{count:.6g}") for count in counts.tolist()], dtype=np.float64)
    return WordCounts(
        [words[0][i] for i in source.tolist()], [words[1][i] for i in target.tolist()], log_probability, printed
    )


def _joined(path: Path, tokens: Sequence[str]) -> list[str]:
    ids = pq.read_table(path, columns=["token_ids"]).column(0).to_pylist()
    return [JOINT.join(tokens[i] for i in unit) for unit in ids]
