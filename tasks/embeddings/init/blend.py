"""Blend: a weighted mean of several initialisers, row by row over those that cover the row."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from tasks.embeddings.dense_rows import DenseRows
from tasks.embeddings.registry import Ingredients, Initialiser, Tables, load_initialiser
from tasks.embeddings.token_mapping import TokenMapping, merge
from tasks.embeddings.weighted_rows import weighted_rows

_ROWS = 4096


def build(given: Ingredients) -> TokenMapping | DenseRows:
    """The parts of `config.blend`, each built on its own and merged by weight.

    A part that leaves a row uncovered does not count for it. A row that some part gives as numbers becomes numbers: the
    weighted mean of that part's rows and of the products of the other parts' weights with the source tables.

    Raises:
        ValueError: there are rows of numbers to blend, and the source model's tables were not given.
    """
    blend = given.config.blend
    if blend is None:
        raise ValueError("blend needs its section in the configuration")
    built = []
    for number, part in enumerate(blend.parts):
        own = replace(given, config=part.config(given.config.seed), files=_files_of(given.files, number))
        built.append(load_initialiser(part.method).build(own))
    return blended(built, [part.weight for part in blend.parts], given)


def blended(
    parts: Sequence[TokenMapping | DenseRows], weights: Sequence[float], given: Ingredients
) -> TokenMapping | DenseRows:
    """The weighted mean of `parts`, row by row over those that cover the row; 4096 rows of numbers at a time.

    Raises:
        ValueError: there are rows of numbers to blend, and the source model's tables were not given.
    """
    mappings = [part.mapping if isinstance(part, DenseRows) else part for part in parts]
    numbered = [part.rows for part in parts if isinstance(part, DenseRows)]
    rows = np.unique(np.concatenate(numbered)) if numbered else np.zeros(0, dtype=np.int64)
    merged = merge(mappings, weights)
    if not len(rows):
        return merged
    mixed = np.any([mapping.covered()[rows] for mapping in mappings])
    if mixed and given.source_tables is None:
        raise ValueError(f"blend: {len(rows)} rows are numbers in one part, which needs the source model's tables")
    tables = given.source_tables() if mixed and given.source_tables is not None else None
    values = [_mean_rows(parts, weights, rows, head, tables) for head in (False, True)]
    if values[0] is None:
        raise ValueError("blend: rows of numbers without input embeddings")
    return DenseRows(_without(merged, rows), rows, values[0], values[1])


def _mean_rows(
    parts: Sequence[TokenMapping | DenseRows],
    weights: Sequence[float],
    rows: NDArray[np.int64],
    head: bool,
    tables: Tables | None,
) -> NDArray[np.float32] | None:
    """The blended rows of one table; None where the head is tied."""
    first = next(part for part in parts if isinstance(part, DenseRows))
    shape = first.head if head else first.input
    if shape is None:
        return None
    table = None if tables is None else (tables.head if head else tables.input)
    result = np.empty((len(rows), shape.shape[1]), dtype=np.float32)
    for start in range(0, len(rows), _ROWS):
        block = rows[start : start + _ROWS]
        total = np.zeros((len(block), shape.shape[1]))
        share = np.zeros(len(block))
        for part, weight in zip(parts, weights, strict=True):
            for covered, values in _rows_of(part, block, head, table):
                total[covered] += weight * values
                share[covered] += weight
        result[start : start + _ROWS] = total / share[:, None]
    return result


def _rows_of(
    part: TokenMapping | DenseRows, rows: NDArray[np.int64], head: bool, table: NDArray[np.float32] | None
) -> list[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """What a part gives for `rows`, by weights and by numbers: positions in `rows`, and their values in one table."""
    found = []
    mapping = part.mapping if isinstance(part, DenseRows) else part
    if table is not None:
        covered = np.flatnonzero(mapping.covered()[rows])
        product = weighted_rows(mapping.rows.take(rows[covered]), torch.from_numpy(table))
        found.append((covered, product.double().numpy()))
    if isinstance(part, DenseRows) and (numbers := part.head if head else part.input) is not None:
        _, here, there = np.intersect1d(rows, part.rows, assume_unique=True, return_indices=True)
        found.append((here, numbers[there].astype(np.float64)))
    return found


def _without(mapping: TokenMapping, rows: NDArray[np.int64]) -> TokenMapping:
    """The mapping without entries in `rows`."""
    row_of_entry = mapping.rows.row_of_entry()
    kept = ~np.isin(row_of_entry, rows)
    return TokenMapping.from_coo(
        row_of_entry[kept],
        mapping.source_ids[kept],
        mapping.weights[kept],
        mapping.shape,
        mapping.origin,
        mapping.origin_names,
    )


def _files_of(files: Mapping[str, Path], number: int) -> dict[str, Path]:
    """The files of one part, under the names that it knows."""
    lead = f"{number}."
    return {name.removeprefix(lead): path for name, path in files.items() if name.startswith(lead)}


METHOD = Initialiser(
    name="blend", build=build, paper="trans-tokenization (Remy et al. 2024), merged mappings, generalised"
)
