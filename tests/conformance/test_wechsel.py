"""WECHSEL against a slow implementation: Procrustes by SciPy's definition, neighbours one pair at a time."""

import importlib.util
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.contract import InputError
from tasks.embeddings.bilingual_dictionary import dictionary_of_alignment, read_dictionary
from tasks.embeddings.init.wechsel import dictionary_vectors, procrustes, wechsel_mapping
from tasks.embeddings.registry import load_initialiser
from tasks.embeddings.subword_vectors import subword_vectors
from tasks.embeddings.word_vectors import WordVectors

needs_gensim = pytest.mark.skipif(importlib.util.find_spec("gensim") is None, reason="gensim is not installed")
ENTRIES = [("baker", "bakker"), ("Mill", "molen"), ("winter", "winter"), ("market", "markt"), ("nowhere", "nergens")]


def word_vectors(words, seed, dimension=4):
    rng = np.random.default_rng(seed)
    return WordVectors(
        words, rng.standard_normal((len(words), dimension)).astype(np.float32), 1 / np.arange(2, len(words) + 2)
    )


SOURCE_WORDS = ["the", "mill", "Mill", "bread", "market", "winter", "stands", "baker", "old", "fifteen", "turns"]
TARGET_WORDS = ["de", "molen", "Molen", "brood", "markt", "winter", "staat", "bakker", "oude", "vijftien"]


def slow_subwords(vocabulary, tokenizer, found):
    rows = np.zeros((len(vocabulary), found.vectors.shape[1]))
    for i in range(len(vocabulary)):
        weights = [
            (found.counts[n], found.vectors[n].astype(float))
            for n, word in enumerate(found.words)
            for text in (word, " " + word)
            if i in tokenizer(text, add_special_tokens=False)["input_ids"]
        ]
        if weights:
            rows[i] = sum(w * v for w, v in weights) / sum(w for w, _ in weights)
    return rows


def slow_wechsel(given, new, old, neighbours, temperature):
    special = set(given.tokenizers[0].all_special_ids)
    same = {given.source.surfaces[i]: i for i in range(len(given.source)) if not given.source.special[i]}
    matrix = np.zeros((len(given.target), len(given.source)))
    for i in range(len(given.target)):
        if i in special:
            for role in ("bos", "eos", "unk", "pad"):
                j = getattr(given.tokenizers[1], f"{role}_token_id")
                if getattr(given.tokenizers[0], f"{role}_token_id") == i and j is not None:
                    matrix[i, j] = 1
        elif new[i].any():
            cosines = {
                j: new[i] @ old[j] / np.linalg.norm(new[i]) / np.linalg.norm(old[j])
                for j in range(len(old))
                if old[j].any() and not given.source.special[j]
            }
            best = sorted(cosines, key=lambda j: (-round(cosines[j], 6), j))[:neighbours]
            weights = np.exp([cosines[j] / temperature for j in best])
            matrix[i, best] = weights / weights.sum()
        elif given.target.surfaces[i] in same:
            matrix[i, same[given.target.surfaces[i]]] = 1
    return matrix


def dense(mapping):
    matrix = np.zeros(mapping.shape)
    matrix[mapping.rows.row_of_entry(), mapping.source_ids] = mapping.weights
    return matrix


@pytest.mark.parametrize("target", [("metaspace", "dutch"), ("byte-level", "dutch")])
@pytest.mark.parametrize("source", [("metaspace", "english"), ("byte-level", "english")])
def test_equals_the_slow_implementation(given_for, source, target):
    given, _ = given_for(source, target, method="wechsel", wechsel={"neighbours": 3, "temperature": 0.2})
    source_words, target_words = word_vectors(SOURCE_WORDS, 1), word_vectors(TARGET_WORDS, 2)
    turn = procrustes(*dictionary_vectors(ENTRIES, source_words, target_words))
    old = subword_vectors(given.source, given.tokenizers[1], source_words)
    new = subword_vectors(given.target, given.tokenizers[0], target_words)
    slow_old = slow_subwords(given.source, given.tokenizers[1], source_words)
    slow_new = slow_subwords(given.target, given.tokenizers[0], target_words)
    assert np.abs(old - slow_old).max() < 1e-6
    assert np.abs(new - slow_new).max() < 1e-6
    # vectors without ties: equal cosines would make the choice of neighbours a matter of rounding
    rng = np.random.default_rng(3)
    slow_old[slow_old.any(axis=1)] += 0.3 * rng.standard_normal((int(slow_old.any(axis=1).sum()), 4))
    slow_new[slow_new.any(axis=1)] += 0.3 * rng.standard_normal((int(slow_new.any(axis=1).sum()), 4))
    old, new = (slow_old @ turn).astype(np.float32), slow_new.astype(np.float32)
    mapping = wechsel_mapping(new, old, (given.target, given.source), given.config.wechsel)
    expected = slow_wechsel(given, new.astype(float), old.astype(float), 3, 0.2)
    assert np.abs(dense(mapping) - expected).max() < 1e-5  # float32 cosines, divided by the temperature
    assert {"special", "nearest", "shared"} <= set(mapping.origins())


def test_procrustes_is_the_best_orthogonal_matrix():
    rng = np.random.default_rng(0)
    turn, _ = np.linalg.qr(rng.standard_normal((5, 5)))
    source = rng.standard_normal((40, 5)).astype(np.float32)
    assert np.abs(procrustes(source, (source @ turn).astype(np.float32)) - turn).max() < 1e-5
    target = rng.standard_normal((40, 5)).astype(np.float32)
    found = procrustes(source, target)
    assert np.abs(found @ found.T - np.eye(5)).max() < 1e-5
    for _ in range(200):
        other, _ = np.linalg.qr(rng.standard_normal((5, 5)))
        assert np.linalg.norm(source @ found - target) <= np.linalg.norm(source @ other - target)


def test_every_spelling_of_an_entry_that_has_vectors_is_used():
    source, target = word_vectors(SOURCE_WORDS, 1), word_vectors(TARGET_WORDS, 2)
    one, two = dictionary_vectors([("Mill", "molen"), ("x", "molen")], source, target)
    place = [(SOURCE_WORDS.index(a), TARGET_WORDS.index(b)) for a in ("Mill", "mill") for b in ("molen", "Molen")]
    assert np.array_equal(one, source.vectors[[a for a, _ in place]])
    assert np.array_equal(two, target.vectors[[b for _, b in place]])
    with pytest.raises(InputError, match="no entry of the dictionary has word vectors on both sides; give"):
        procrustes(*dictionary_vectors([("x", "y")], source, target))
    with pytest.raises(InputError, match="differ in dimension, 4 and 3"):
        procrustes(np.zeros((1, 4), np.float32), np.zeros((1, 3), np.float32))


def write_vectors(path, found):
    rows = zip(found.words, found.vectors.tolist(), strict=True)
    path.write_text("\n".join(f"{word} {' '.join(map(str, row))}" for word, row in rows), encoding="utf-8")


def test_from_files(given_for, tmp_path):
    paths = {"dictionary": "d.tsv", "source_vectors": "s.vec", "target_vectors": "t.vec"}
    given, _ = given_for(
        ("metaspace", "english"), ("metaspace", "dutch"), method="wechsel", wechsel={**paths, "subwords": "words"}
    )
    assert given.config.needs() == ()
    write_vectors(tmp_path / "s.vec", word_vectors(SOURCE_WORDS, 1))
    write_vectors(tmp_path / "t.vec", word_vectors(TARGET_WORDS, 2))
    (tmp_path / "d.tsv").write_text("src\ttgt\n" + "".join(f"{a}\t{b}\n" for a, b in ENTRIES))
    files = {name: tmp_path / path for name, path in paths.items()}
    mapping = load_initialiser("wechsel").build(replace(given, files=files))
    nearest = [i for i, origin in enumerate(mapping.origins()) if origin == "nearest"]
    assert nearest
    assert set(mapping.rows.counts()[nearest].tolist()) == {10}
    with pytest.raises(ValueError, match="wechsel needs a dictionary, or an alignment"):
        load_initialiser("wechsel").build(replace(given, files={k: v for k, v in files.items() if k != "dictionary"}))


def alignment(folder, pairs, sides):
    for side, words in zip(("source", "target"), sides, strict=True):
        table = {"unit_id": pa.array(range(len(words)), pa.int32()), "text": words}
        pq.write_table(pa.table(table), folder / f"{side}_units.parquet")
    columns = list(zip(*pairs, strict=True))
    table = {
        "source_unit": pa.array(columns[0], pa.int32()),
        "target_unit": pa.array(columns[1], pa.int32()),
        "count": pa.array(columns[2], pa.float64()),
    }
    pq.write_table(pa.table(table), folder / "word_pairs.parquet")


def test_dictionary_of_an_alignment(tmp_path):
    """Target word 0: 12 against 12 (the smaller id); 1: 6 + 5 in two corpora; 2: too rare."""
    pairs = [(0, 0, 12.0), (1, 0, 12.0), (1, 1, 6.0), (1, 1, 5.0), (0, 1, 10.5), (2, 2, 9.0)]
    alignment(tmp_path, pairs, (["a", "b", "c"], ["x", "y", "z"]))
    assert dictionary_of_alignment(tmp_path, 10.0) == [("a", "x"), ("b", "y")]
    with pytest.raises(InputError, match="no aligned pair of words has a count of 99"):
        dictionary_of_alignment(tmp_path, 99.0)


def test_dictionary_files(tmp_path):
    path = tmp_path / "words.tsv"
    path.write_text("source\ttarget\nbread\tbrood\n\nmill \t molen\nbread\tbrood\n")
    assert read_dictionary(path) == [("bread", "brood"), ("mill", "molen"), ("bread", "brood")]
    path.write_text("a\tb\na b\n")
    with pytest.raises(InputError, match=r"words.tsv, line 2: 'a b'; expected `source<TAB>target`"):
        read_dictionary(path)
    path.write_text("\n")
    with pytest.raises(InputError, match="there is no entry"):
        read_dictionary(path)


@needs_gensim
def test_trained_on_text_with_a_dictionary_from_the_alignment(given_for, tmp_path):
    settings = {"dimension": 8, "min_count": 2, "buckets": 1000}
    given, _ = given_for(
        ("metaspace", "english"),
        ("metaspace", "dutch"),
        method="wechsel",
        wechsel={"fasttext": settings, "min_count": 1},
    )
    assert set(given.config.needs()) == {"corpus", "bitext", "alignment"}
    english, dutch = "The baker sells bread in the old mill", "De bakker verkoopt brood in de oude molen"
    pq.write_table(pa.table({"source": [english] * 30, "target": [dutch] * 30}), tmp_path / "train.parquet")
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    pq.write_table(pa.table({"text": [dutch] * 30}), corpus / "train.parquet")
    alignment(tmp_path, [(0, 0, 30.0), (1, 1, 30.0)], ([" baker", " mill"], [" bakker", " molen"]))
    given = replace(given, corpus=corpus, bitext=tmp_path, alignment=tmp_path)
    one, two = (load_initialiser("wechsel").build(given) for _ in range(2))
    assert np.array_equal(one.weights, two.weights)
    assert "nearest" in one.origins()
