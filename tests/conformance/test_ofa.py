"""OFA against a slow implementation: every word cut in every form, every pair of tokens compared."""

from dataclasses import replace

import numpy as np
import pytest

from tasks.contract import InputError
from tasks.embeddings.init.ofa import multilingual_vectors
from tasks.embeddings.registry import load_initialiser

ENGLISH = ["the", "mill", "bread", "market", "winter", "stands", "baker", "old", "fifteen", "turns"]
DUTCH = ["de", "molen", "brood", "markt", "winter", "staat", "bakker", "oude", "vijftien", "draait"]


def write_vectors(path):
    rng = np.random.default_rng(4)
    words = [f"eng:{word}" for word in ENGLISH] + [f"nld:${word}$" for word in DUTCH]
    rows = {word: rng.standard_normal(5).astype(np.float32) for word in words}
    lines = [f"{word} {' '.join(map(str, row.tolist()))}" for word, row in rows.items()]
    path.write_text("\n".join([f"{len(rows)} 5", *lines]) + "\n", encoding="utf-8")
    return list(rows.values())


def slow_tokens(vocabulary, tokenizer, words, rows):
    """The mean over words and their four forms in which a token occurs."""
    found = {}
    for i in range(len(vocabulary)):
        held = [
            row.astype(float)
            for word, row in zip(words, rows, strict=True)
            for text in (word, " " + word, word.capitalize(), " " + word.capitalize())
            if i in tokenizer(text, add_special_tokens=False)["input_ids"]
        ]
        if held:
            found[i] = np.mean(held, axis=0)
    return found


def slow_ofa(given, words, rows, neighbours, temperature):
    new_tokenizer, old_tokenizer = given.tokenizers
    new = slow_tokens(given.target, new_tokenizer, words, rows)
    old = slow_tokens(given.source, old_tokenizer, words, rows)
    same = {given.source.surfaces[i]: i for i in range(len(given.source)) if not given.source.special[i]}
    matrix = np.zeros((len(given.target), len(given.source)))
    for i in range(len(given.target)):
        if i in new_tokenizer.all_special_ids:
            for role in ("bos", "eos", "unk", "pad"):
                j = getattr(old_tokenizer, f"{role}_token_id")
                if getattr(new_tokenizer, f"{role}_token_id") == i and j is not None:
                    matrix[i, j] = 1
        elif given.target.surfaces[i] in same:
            matrix[i, same[given.target.surfaces[i]]] = 1
        elif i in new:
            cosines = {
                j: new[i] @ row / np.linalg.norm(new[i]) / np.linalg.norm(row)
                for j, row in old.items()
                if j not in old_tokenizer.all_special_ids
            }
            best = sorted(cosines, key=lambda j: (-round(cosines[j], 6), j))[:neighbours]
            weights = np.exp([cosines[j] / temperature for j in best])
            matrix[i, best] = weights / weights.sum()
    return matrix


@pytest.mark.parametrize("target", [("metaspace", "dutch"), ("byte-level", "dutch")])
@pytest.mark.parametrize("source", [("metaspace", "english"), ("byte-level", "english")])
def test_equals_the_slow_implementation(given_for, source, target, tmp_path):
    """Neighbours: all there are, so that cosines that differ by a rounding cannot change which are taken."""
    given, _ = given_for(source, target, method="ofa", ofa={"neighbours": 400, "temperature": 0.2})
    rows = write_vectors(tmp_path / "words.vec")
    mapping = load_initialiser("ofa").build(replace(given, files={"vectors": tmp_path / "words.vec"}))
    dense = np.zeros(mapping.shape)
    dense[mapping.rows.row_of_entry(), mapping.source_ids] = mapping.weights
    expected = slow_ofa(given, [*ENGLISH, *DUTCH], rows, 400, 0.2)
    assert np.abs(dense - expected).max() < 1e-6
    assert np.array_equal(mapping.covered(), expected.any(axis=1))
    assert set(mapping.origins()) == {"special", "shared", "nearest", "random"}


def test_the_nearest_are_taken(given_for, tmp_path):
    given, _ = given_for(("metaspace", "english"), ("metaspace", "dutch"), method="ofa", ofa={"neighbours": 3})
    rows = write_vectors(tmp_path / "words.vec")
    mapping = load_initialiser("ofa").build(replace(given, files={"vectors": tmp_path / "words.vec"}))
    old = slow_tokens(given.source, given.tokenizers[1], [*ENGLISH, *DUTCH], rows)
    new = slow_tokens(given.target, given.tokenizers[0], [*ENGLISH, *DUTCH], rows)
    nearest = [i for i, origin in enumerate(mapping.origins()) if origin == "nearest"]
    assert nearest
    for i in nearest:
        ids = mapping.source_ids[mapping.indptr[i] : mapping.indptr[i + 1]]
        cosines = {j: new[i] @ row / np.linalg.norm(new[i]) / np.linalg.norm(row) for j, row in old.items()}
        least = sorted(value for j, value in cosines.items() if not given.source.special[j])[-3]
        assert len(ids) == 3
        assert min(cosines[j] for j in ids.tolist()) > least - 1e-6


def test_words_without_their_language(tmp_path):
    path = tmp_path / "words.vec"
    path.write_text("eng:house 1 0\nhouse: 0 1\nnld:$huis$ 1 1\nabc: 2 2\neng:$ 3 3\n")
    found = multilingual_vectors(path)
    assert list(found.words) == ["house", "house:", "huis", "abc:"]
    assert found.vectors.tolist() == [[1, 0], [0, 1], [1, 1], [2, 2]]
    assert found.counts.tolist() == [1, 1, 1, 1]
    path.write_text("eng:house 1 0\nnld:huis 1\n")
    with pytest.raises(InputError, match=r"words.vec, line 2: 1 values for 'nld:huis', expected 2"):
        multilingual_vectors(path)


def test_its_vectors_are_a_file_of_the_data_root(given_for):
    given, _ = given_for(("metaspace", "english"), ("metaspace", "dutch"), method="ofa", ofa={"vectors": "my.vec"})
    assert given.config.needs() == ()
    assert given.config.files() == {"vectors": "my.vec"}
    with pytest.raises(ValueError, match="ofa needs both tokenizers and multilingual word vectors"):
        load_initialiser("ofa").build(given)
