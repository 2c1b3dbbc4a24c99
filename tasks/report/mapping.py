"""How good the token mapping is, in figures and in rows that a person can judge."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import regex

from tasks.embeddings.dense_files import read_dense_ids
from tasks.report.artifacts import Artifact, of_stage
from tasks.report.coverage import bands
from tasks.report.data import Row

Bools = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
EVIDENCE = "aligned"
NO_EVIDENCE = "^(fallback|random)"  # origins of rows that nothing known of the token made
EVIDENCE_EXAMPLES = 30
OTHER_EXAMPLES = 15
SOURCES = 5
ENTROPY_STEP = 0.5
SEARCHED = 5000
LETTERS = regex.compile(r"\p{L}\p{M}*\p{L}\p{M}*\p{L}")


def mapping(artifacts: Sequence[Artifact]) -> Row | None:
    """Rows by origin, entropies and examples of the mapping; None where the run has none."""
    for artifact in of_stage(artifacts, "mapping"):
        tokens = artifact.table("tokens.parquet")
        if tokens is not None:
            share, by_rank = weighted_coverage(tokens, artifact.folder)
            return {
                "size": tokens.num_rows,
                "coverage": share,
                "bands": by_rank,
                "origins": origins(tokens),
                "entropy": entropy_histogram(tokens),
                "examples": examples(tokens, artifact),
            }
    return None


def weighted_coverage(tokens: pa.Table, folder: Path | None) -> tuple[float | None, list[Row]]:
    """Share of the training text in tokens with `evidence`, and the same by rank of frequency.

    Args:
        tokens: tokens.parquet of a mapping.
        folder: the mapping's folder, for rows that are given as numbers.
    """
    made = evidence(tokens, folder)
    frequency = _floats(tokens, "frequency")
    share = float(frequency[made].sum() / frequency.sum()) if frequency.sum() else None
    return share, bands(tokens, made)


def evidence(tokens: pa.Table, folder: Path | None = None) -> Bools:
    """Which rows are made of source tokens or given as numbers, and not by a fallback or at random: bool [tokens]."""
    found: Bools = given(tokens, folder) & ~pc.match_substring_regex(tokens["origin"], NO_EVIDENCE).to_numpy()
    return found


def given(tokens: pa.Table, folder: Path | None) -> Bools:
    """Which rows the mapping gives, as a mean of source rows or as numbers; the others are drawn: bool [tokens]."""
    found = _floats(tokens, "sources") > 0
    if folder is not None:
        found[read_dense_ids(folder, len(found))] = True
    return found


def origins(tokens: pa.Table) -> list[Row]:
    """Rows, share of rows, share of the training text and mean entropy by origin; largest share of text first."""
    aggregates = [("frequency", "sum"), ("token", "count"), ("entropy", "mean")]
    grouped = tokens.select(["origin", "frequency", "token", "entropy"]).group_by("origin").aggregate(aggregates)
    total = sum(grouped["frequency_sum"].to_pylist())
    rows = [
        {
            "origin": row["origin"],
            "rows": row["token_count"],
            "share": row["token_count"] / tokens.num_rows,
            "frequency_share": row["frequency_sum"] / total if total else None,
            "entropy": row["entropy_mean"],
        }
        for row in grouped.to_pylist()
    ]
    return sorted(rows, key=lambda row: (-(row["frequency_share"] or 0.0), -row["rows"], row["origin"]))


def entropy_histogram(tokens: pa.Table) -> list[Row]:
    """Rows and share of the training text in bins of entropy, half a nat wide, of the rows made of source tokens."""
    made = _floats(tokens, "sources") > 0
    entropy, frequency = _floats(tokens, "entropy")[made], _floats(tokens, "frequency")[made]
    if entropy.size == 0:
        return []
    edges = np.arange(0.0, max(float(entropy.max()), ENTROPY_STEP) + ENTROPY_STEP, ENTROPY_STEP)
    rows, _ = np.histogram(entropy, edges)
    text, _ = np.histogram(entropy, edges, weights=frequency)
    total = float(frequency.sum())
    return [
        {
            "low": float(edges[n]),
            "high": float(edges[n + 1]),
            "rows": int(rows[n]),
            "frequency_share": float(text[n]) / total if total else None,
        }
        for n in range(len(rows))
    ]


def examples(tokens: pa.Table, artifact: Artifact) -> list[Row]:
    """Frequent target tokens of each origin with their strongest source tokens.

    Of the aligned ones, tokens of at least three letters: whether 'the' was mapped right is hard to see.

    Args:
        tokens: tokens.parquet of the mapping.
        artifact: the mapping, with the weights and the source tokens' text.
    """
    groups = []
    for row in origins(tokens):
        chosen = _frequent(tokens, row["origin"])
        if chosen:
            groups.append({"origin": row["origin"], "tokens": chosen})
    ids = [token["target_id"] for group in groups for token in group["tokens"]]
    found = _sources(artifact.table("mapping.parquet"), ids)
    names = _names(artifact.table("source_tokens.parquet"))
    for group in groups:
        group["tokens"] = [_example(token, found.get(token["target_id"], []), names) for token in group["tokens"]]
    return sorted(groups, key=lambda group: group["origin"] != EVIDENCE)


def _example(token: Row, sources: list[Row], names: dict[int, str]) -> Row:
    return {
        "token": token["text"],
        "frequency": token["frequency"],
        "entropy": token["entropy"],
        "count": token["sources"],
        "sources": [{"token": names.get(row["source_id"], f"#{row['source_id']}"), "weight": row["weight"]}
                    for row in sources],
    }  # fmt: skip


def _frequent(tokens: pa.Table, origin: str) -> list[Row]:
    rows = tokens.filter(pc.and_(pc.equal(tokens["origin"], origin), pc.greater(tokens["frequency"], 0)))
    rows = rows.sort_by([("frequency", "descending"), ("target_id", "ascending")])
    if origin != EVIDENCE:
        found: list[Row] = rows.slice(0, OTHER_EXAMPLES).to_pylist()
        return found
    candidates: list[Row] = rows.slice(0, SEARCHED).to_pylist()
    return [row for row in candidates if LETTERS.search(row["text"])][:EVIDENCE_EXAMPLES]


def _sources(weights: pa.Table | None, ids: list[int]) -> dict[int, list[Row]]:
    """The strongest source tokens of the rows `ids`; mapping.parquet has each row's strongest first."""
    found: dict[int, list[Row]] = {}
    if weights is None:
        return found
    rows = weights.filter(pc.is_in(weights["target_id"], value_set=pa.array(ids, weights["target_id"].type)))
    for row in rows.to_pylist():
        shown = found.setdefault(row["target_id"], [])
        if len(shown) < SOURCES:
            shown.append(row)
    return found


def _names(tokens: pa.Table | None) -> dict[int, str]:
    """The readable text of each source token that some row is made of."""
    return {} if tokens is None else dict(zip(tokens["source_id"].to_pylist(), tokens["text"].to_pylist(), strict=True))


def _floats(tokens: pa.Table, column: str) -> "np.ndarray[tuple[int, ...], np.dtype[np.float64]]":
    values: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = tokens[column].to_numpy().astype(np.float64)
    return np.nan_to_num(values)
