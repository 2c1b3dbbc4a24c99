"""FOCUS against sparsemax by sorting, row by row; and fastText's training."""

import importlib.util
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given as property_of
from hypothesis import settings
from hypothesis import strategies as st

from configs.schema import FastTextConfig
from tasks.contract import InputError
from tasks.embeddings.init.focus import focus_mapping, vectors_of
from tasks.embeddings.matching import NONE, identical_tokens
from tasks.embeddings.registry import load_initialiser
from tasks.embeddings.sparse_similarity import sparsemax_cosines
from tasks.embeddings.word_vectors import WordVectors, read_word_vectors, train_word_vectors

needs_entmax = pytest.mark.skipif(importlib.util.find_spec("entmax") is None, reason="entmax is not installed")
needs_gensim = pytest.mark.skipif(importlib.util.find_spec("gensim") is None, reason="gensim is not installed")


def slow_sparsemax(z):
    """Martins and Astudillo 2016, algorithm 1."""
    descending = np.sort(z)[::-1]
    k = max(j for j in range(1, len(z) + 1) if 1 + j * descending[j - 1] > descending[:j].sum())
    tau = (descending[:k].sum() - 1) / k
    return np.maximum(z - tau, 0)


def slow_focus(given, vectors):
    special = {given.tokenizers[0].convert_tokens_to_ids(t): t for t in given.tokenizers[0].all_special_tokens}
    same = {given.source.surfaces[i]: i for i in range(len(given.source)) if not given.source.special[i]}
    matrix = np.zeros((len(given.target), len(given.source)))
    shared = [i for i in range(len(given.target)) if i not in special and given.target.surfaces[i] in same]
    anchors = [i for i in shared if vectors[i].any()]
    for i in range(len(given.target)):
        if i in special:
            role = next(r for r in ("bos", "eos", "unk", "pad") if getattr(given.tokenizers[0], f"{r}_token_id") == i)
            if (j := getattr(given.tokenizers[1], f"{role}_token_id")) is not None:
                matrix[i, j] = 1
        elif i in shared:
            matrix[i, same[given.target.surfaces[i]]] = 1
        elif vectors[i].any():
            a = vectors[i].astype(float)
            cosines = [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for b in vectors[anchors].astype(float)]
            for anchor, weight in zip(anchors, slow_sparsemax(np.array(cosines)), strict=True):
                matrix[i, same[given.target.surfaces[anchor]]] += weight
    return matrix


def dense(mapping):
    matrix = np.zeros(mapping.shape)
    matrix[mapping.rows.row_of_entry(), mapping.source_ids] = mapping.weights
    return matrix


@needs_entmax
@pytest.mark.parametrize("target", [("metaspace", "dutch"), ("byte-level", "russian")])
@pytest.mark.parametrize("source", [("metaspace", "english"), ("byte-level", "english")])
def test_equals_the_slow_implementation(given_for, source, target):
    given, _ = given_for(source, target, method="focus")
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((len(given.target), 8)).astype(np.float32) + 0.5
    vectors[rng.random(len(vectors)) < 0.2] = 0
    mapping = focus_mapping(vectors, given.target, given.source)
    expected = slow_focus(given, vectors)
    assert np.abs(dense(mapping) - expected).max() < 1e-6
    assert np.array_equal(mapping.covered(), expected.any(axis=1))
    assert {"special", "shared", "similar", "random"} >= set(mapping.origins()) >= {"special", "shared", "similar"}


@needs_entmax
@settings(max_examples=25, deadline=None)
@property_of(st.integers(0, 10_000), st.integers(1, 700), st.sampled_from([2**12, 2**20]))
def test_sparsemax_in_blocks_is_that_of_the_whole_row(seed, anchors, block_bytes):
    """700 anchors in 2 dimensions that are nearly alike: more of them have weight than are looked at first."""
    rng = np.random.default_rng(seed)
    frame = (rng.standard_normal((anchors, 2)) * rng.choice([1e-3, 1.0]) + 1).astype(np.float32)
    rows = rng.standard_normal((5, 2)).astype(np.float32)
    found = sparsemax_cosines(rows, frame, block_bytes)
    got = np.zeros((5, anchors))
    got[found.row_of_entry(), found.ids] = found.weights
    units = [x.astype(float) / np.linalg.norm(x.astype(float), axis=1, keepdims=True) for x in (rows, frame)]
    expected = np.array([slow_sparsemax(z) for z in units[0] @ units[1].T])
    assert np.abs(got - expected).max() < 1e-6


@needs_entmax
def test_vectors_from_a_file(given_for, tmp_path):
    given, _ = given_for(("metaspace", "english"), ("metaspace", "dutch"), method="focus", focus={"vectors": "v.txt"})
    assert given.config.needs() == ()
    assert given.config.files() == {"vectors": "v.txt"}
    rng = np.random.default_rng(1)
    rows = {token: rng.standard_normal(4).round(3) for token in given.target.tokens if " " not in token}
    path = tmp_path / "v.txt"
    lines = [f"{len(rows)} 4"] + [f"{token} {' '.join(map(str, row))}" for token, row in rows.items()]
    path.write_text("\n".join(lines), encoding="utf-8")
    mapping = load_initialiser("focus").build(replace(given, files={"vectors": path}))
    vectors = np.array([rows.get(token, np.zeros(4)) for token in given.target.tokens], dtype=np.float32)
    assert np.abs(dense(mapping) - slow_focus(given, vectors)).max() < 1e-6


@needs_entmax
def test_nothing_shared_is_refused(given_for):
    given, _ = given_for(("metaspace", "english"), ("metaspace", "dutch"), method="focus")
    vectors = np.ones((len(given.target), 2), np.float32)
    shared = identical_tokens(given.target, given.source) != NONE
    vectors[shared] = 0
    message = rf"'focus' mixes shared tokens, and none of the {shared.sum()} tokens .* has a vector; give more text"
    with pytest.raises(InputError, match=message):
        focus_mapping(vectors, given.target, given.source)
    alone = focus_mapping(np.zeros_like(vectors), given.target, given.source)
    assert set(alone.origins()) == {"special", "shared", "random"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a 1 2\nb 1\n", r"line 2: 1 values for 'b', expected 2"),
        ("a 1 x\n", r"line 1: could not convert"),
        ("a 1 nan\n", r"line 1: 2 values for 'a', expected 2, all finite"),
        ("2 3\n", "there are none"),
    ],
)
def test_bad_vector_files(tmp_path, text, message):
    path = tmp_path / "bad.vec"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_word_vectors(path)


def test_vectors_are_found_by_the_token_string():
    found = vectors_of(["b", "c", "a"], WordVectors(["a", "b"], np.array([[1, 2], [3, 4]], np.float32), np.ones(2)))
    assert found.tolist() == [[3, 4], [0, 0], [1, 2]]


@needs_gensim
@needs_entmax
def test_trained_on_the_corpus_the_same_each_time(given_for, tmp_path):
    settings_ = {"dimension": 8, "min_count": 3, "epochs": 2, "buckets": 1000}
    given, _ = given_for(
        ("metaspace", "english"), ("metaspace", "dutch"), method="focus", focus={"fasttext": settings_}
    )
    texts = ["De molenaar verkoopt broden aan de bakker.", "De oude molen staat stil in de winter."] * 20
    pq.write_table(pa.table({"text": texts, "corpus": ["x"] * len(texts)}), tmp_path / "train.parquet")
    work = tmp_path / "work"
    work.mkdir()
    given = replace(given, corpus=tmp_path, work=work)
    one, two = (load_initialiser("focus").build(given) for _ in range(2))
    assert np.array_equal(one.weights, two.weights)
    assert np.array_equal(one.source_ids, two.source_ids)
    assert "similar" in one.origins()
    assert not list(work.iterdir())


@needs_gensim
def test_words_used_alike_have_vectors_alike():
    rng = np.random.default_rng(0)
    sentences = [
        [["cat", "dog"][rng.integers(2)], "eats", "meat"] if n % 2 else [["red", "blue"][rng.integers(2)], "is", "hue"]
        for n in range(2000)
    ]
    config = FastTextConfig(dimension=16, epochs=20, min_count=1, buckets=1000, min_n=6, max_n=6)
    found = train_word_vectors(sentences, config, seed=1)
    vector = {word: row / np.linalg.norm(row) for word, row in zip(found.words, found.vectors, strict=True)}
    assert vector["cat"] @ vector["dog"] > vector["cat"] @ vector["red"] + 0.2
    assert found.counts.tolist() == sorted(found.counts.tolist(), reverse=True)
    with pytest.raises(InputError, match="no word occurs 10 times"):
        train_word_vectors([["a"]], FastTextConfig(buckets=1000), seed=1)
