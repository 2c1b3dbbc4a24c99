"""A token mapping as files: mapping.parquet, tokens.parquet, source_tokens.parquet and mapping.json."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from storage.tables import write_table
from tasks.embeddings.canonical import Vocabulary
from tasks.embeddings.dense_files import write_dense
from tasks.embeddings.dense_rows import DenseRows
from tasks.embeddings.token_mapping import TokenMapping
from tasks.embeddings.token_text import readable_tokens


def write_mapping(
    folder: Path,
    built: TokenMapping | DenseRows,
    target: Vocabulary,
    source: Vocabulary,
    frequency: NDArray[np.int64],
    seed: int,
) -> None:
    """Write a mapping into `folder`; rows given as numbers go beside it, into dense.safetensors.

    Args:
        folder: where the files go.
        built: the mapping, or rows given as numbers with the mapping of the others.
        target: the new vocabulary.
        source: the old vocabulary.
        frequency: int64 [target size]: occurrences of each token in the training text.
        seed: seed of the rows that nothing covers.
    """
    mapping = built.mapping if isinstance(built, DenseRows) else built
    covered = mapping.covered()
    if isinstance(built, DenseRows):
        covered[built.rows] = True
        write_dense(folder, built)
    entries = entries_table(mapping)
    write_table(entries, folder / "mapping.parquet")
    write_table(tokens_table(mapping, entries, target, source, frequency), folder / "tokens.parquet")
    write_table(source_tokens_table(mapping, source), folder / "source_tokens.parquet")
    uncovered = None if covered.all() else {"rule": "normal", "seed": seed}
    sizes = {"target_size": mapping.target_size, "source_size": mapping.source_size, "uncovered": uncovered}
    (folder / "mapping.json").write_text(json.dumps(sizes, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def read_mapping(folder: Path) -> tuple[TokenMapping, int | None]:
    """The mapping in `folder`, exactly as written, and the seed of the rows that nothing covers (None: there is none).

    Rows given as numbers have no entries in it; `dense_files` reads them.

    Raises:
        ValueError: the files do not fit together.
    """
    sizes: dict[str, Any] = json.loads((folder / "mapping.json").read_text(encoding="utf-8"))
    entries = pq.read_table(folder / "mapping.parquet")
    origins = pq.read_table(folder / "tokens.parquet", columns=["origin"]).column(0).to_pylist()
    names = tuple(sorted(set(origins)))
    code = {name: n for n, name in enumerate(names)}
    rows = entries["target_id"].to_numpy().astype(np.int64)
    ids = entries["source_id"].to_numpy()
    weights = entries["weight"].to_numpy()
    order = np.lexsort((ids, rows))
    counts = np.bincount(rows, minlength=sizes["target_size"])
    mapping = TokenMapping(
        indptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        source_ids=ids[order].astype(np.int32),
        weights=weights[order].astype(np.float64),
        source_size=sizes["source_size"],
        origin=np.array([code[name] for name in origins], dtype=np.uint8),
        origin_names=names,
    )
    return mapping, None if sizes["uncovered"] is None else int(sizes["uncovered"]["seed"])


def entries_table(mapping: TokenMapping) -> pa.Table:
    """The entries: target_id int32, source_id int32, weight float64; by target_id, weight descending, source_id."""
    rows, ids, weights = mapping.rows.row_of_entry(), mapping.source_ids, mapping.weights
    order = np.lexsort((ids, -weights, rows))
    return pa.table(
        {
            "target_id": pa.array(rows[order].astype(np.int32)),
            "source_id": pa.array(ids[order]),
            "weight": pa.array(weights[order]),
        }
    )


def source_tokens_table(mapping: TokenMapping, source: Vocabulary) -> pa.Table:
    """The source tokens that some row is made of: source_id int32, token string, text string ('▁' for a space)."""
    used = np.unique(mapping.source_ids).tolist()
    text = readable_tokens(source)
    return pa.table(
        {
            "source_id": pa.array(used, pa.int32()),
            "token": pa.array([source.tokens[i] for i in used], pa.string()),
            "text": pa.array([text[i] for i in used], pa.string()),
        }
    )


def tokens_table(
    mapping: TokenMapping, entries: pa.Table, target: Vocabulary, source: Vocabulary, frequency: NDArray[np.int64]
) -> pa.Table:
    """One row for each target token: its origin, frequency, number of sources, entropy in nats and best source.

    Args:
        mapping: the mapping.
        entries: its `entries_table`: the best source of a row comes first.
        target: the new vocabulary.
        source: the old vocabulary.
        frequency: int64 [target size].
    """
    covered = mapping.covered()
    first = mapping.indptr[:-1][covered]
    top_source: list[str | None] = [None] * mapping.target_size
    top_weight = np.full(mapping.target_size, np.nan)
    top_weight[covered] = entries["weight"].to_numpy()[first]
    top_ids = entries["source_id"].to_numpy()[first]
    for row, source_id in zip(np.flatnonzero(covered).tolist(), top_ids.tolist(), strict=True):
        top_source[row] = source.tokens[source_id]
    return pa.table(
        {
            "target_id": pa.array(np.arange(mapping.target_size, dtype=np.int32)),
            "token": pa.array(list(target.tokens), pa.string()),
            "text": pa.array(readable_tokens(target), pa.string()),
            "origin": pa.array(mapping.origins(), pa.string()),
            "frequency": pa.array(frequency),
            "sources": pa.array(mapping.rows.counts().astype(np.int32)),
            "entropy": pa.array(mapping.entropy()),
            "top_source": pa.array(top_source, pa.string()),
            "top_weight": pa.array(top_weight, from_pandas=True),
        }
    )
