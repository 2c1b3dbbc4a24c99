"""A blend against the weighted mean of its parts' rows, one row at a time."""

from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError

from configs.schema import MappingConfig
from tasks.embeddings.dense_rows import DenseRows
from tasks.embeddings.init.blend import blended
from tasks.embeddings.registry import TokenPairs, load_initialiser
from tasks.embeddings.token_mapping import TokenMapping


def product(found, tables):
    """The new rows of both tables, NaN where a row is drawn."""
    mapping = found.mapping if isinstance(found, DenseRows) else found
    rows = []
    for table, numbers in zip((tables.input, tables.head), ("input", "head"), strict=True):
        result = np.full((mapping.target_size, table.shape[1]), np.nan)
        for i in np.flatnonzero(mapping.covered()).tolist():
            entries = slice(mapping.indptr[i], mapping.indptr[i + 1])
            result[i] = mapping.weights[entries] @ table[mapping.source_ids[entries]].astype(float)
        if isinstance(found, DenseRows):
            result[found.rows] = getattr(found, numbers)
        rows.append(result)
    return rows


PARTS = [
    {"method": "trans-tokenization", "weight": 2.0, "settings": {"smoothing": 0.0}},
    {"method": "vocadt", "weight": 0.5},
    {"method": "random", "settings": {"copy_shared": True}},
]


@pytest.mark.parametrize("rows", [4096, 5])
def test_equals_the_slow_implementation(given_for, monkeypatch, rows):
    """VocADT gives rows of numbers, random leaves most rows uncovered; in one block and in several."""
    monkeypatch.setattr("tasks.embeddings.init.blend._ROWS", rows)
    given, tables = given_for(
        ("metaspace", "english"), ("metaspace", "russian"), method="blend", blend={"parts": PARTS}
    )
    rng = np.random.default_rng(2)
    pairs = TokenPairs(
        rng.integers(5, len(given.target), 90), rng.integers(5, len(given.source), 90), rng.uniform(1, 50, 90)
    )
    given = replace(given, pairs=pairs)
    found = load_initialiser("blend").build(given)
    assert isinstance(found, DenseRows)
    parts = []
    for part in PARTS:
        config = MappingConfig(method=part["method"], **part.get("settings", {}))
        parts.append(product(load_initialiser(part["method"]).build(replace(given, config=config)), tables))
    weights = [part.get("weight", 1.0) for part in PARTS]
    for n, got in enumerate(product(found, tables)):
        for i, row in enumerate(got):
            have = [(w, part[n][i]) for w, part in zip(weights, parts, strict=True) if not np.isnan(part[n][i]).any()]
            expected = sum(w * r for w, r in have) / sum(w for w, _ in have)
            assert np.abs(row - expected).max() < 1e-6
    assert set(given.config.needs()) == {"counts", "source_model"}


def test_without_numbers_it_is_the_merged_mapping(given_for):
    parts = [{"method": "mean"}, {"method": "random"}]
    given, _ = given_for(("metaspace", "english"), ("metaspace", "dutch"), method="blend", blend={"parts": parts})
    found, mean = load_initialiser("blend").build(given), load_initialiser("mean").build(given)
    assert isinstance(found, TokenMapping)
    assert np.array_equal(found.source_ids, mean.source_ids)
    assert found.weights == pytest.approx(mean.weights)


def test_rows_of_numbers_need_the_source_tables(given_for):
    given, _ = given_for(("metaspace", "english"), ("metaspace", "dutch"), method="mean")
    mapping = load_initialiser("mean").build(given)
    empty = TokenMapping.from_coo(np.zeros(0, int), np.zeros(0, int), np.zeros(0), mapping.shape)
    rows = DenseRows(empty, np.array([9]), np.ones((1, 6), np.float32), None)
    with pytest.raises(ValueError, match="1 rows are numbers in one part, which needs the source model's tables"):
        blended([mapping, rows], [1.0, 1.0], replace(given, source_tables=None))
    alone = blended([rows, rows], [1.0, 3.0], replace(given, source_tables=None))
    assert alone.input.tolist() == [[1.0] * 6]
    assert alone.head is None


def test_numbers_beside_a_mapping_that_leaves_those_rows_uncovered(given_for):
    given, _ = given_for(("metaspace", "english"), ("metaspace", "dutch"), method="random", copy_shared=True)
    mapping = load_initialiser("random").build(given)
    row = np.flatnonzero(~mapping.covered())[:1]
    empty = TokenMapping.from_coo(np.zeros(0, int), np.zeros(0, int), np.zeros(0), mapping.shape)
    rows = DenseRows(empty, row, np.full((1, 6), 2.0, np.float32), None)
    found = blended([mapping, rows], [3.0, 1.0], replace(given, source_tables=None))
    assert found.input.tolist() == [[2.0] * 6]
    assert np.array_equal(found.mapping.source_ids, mapping.source_ids)


def test_files_and_mistakes_of_parts():
    parts = [
        {"method": "focus", "settings": {"focus": {"vectors": "v.vec"}}},
        {"method": "trans-tokenization", "settings": {"trans_tokenization": {"dictionary": "d.tsv"}}},
    ]
    config = MappingConfig(method="blend", blend={"parts": parts})
    assert config.files() == {"0.vectors": "v.vec", "1.dictionary": "d.tsv"}
    assert config.needs() == ()
    with pytest.raises(ValidationError, match="a blend cannot hold a blend"):
        MappingConfig(method="blend", blend={"parts": [{"method": "blend"}]})
    with pytest.raises(ValidationError, match="smoothness"):
        MappingConfig(method="blend", blend={"parts": [{"method": "mean", "settings": {"smoothness": 1}}]})
