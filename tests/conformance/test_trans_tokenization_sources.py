"""Trans-tokenization from several source languages, and from a dictionary."""

from collections import defaultdict
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given as property_of
from hypothesis import settings
from hypothesis import strategies as st
from pydantic import ValidationError

from configs.schema import MappingConfig
from tasks.embeddings.canonical import Vocabulary
from tasks.embeddings.dictionary_pairs import dictionary_pairs
from tasks.embeddings.registry import Ingredients, TokenPairs, load_initialiser

METHOD = "trans-tokenization"


def vocabulary(words):
    """A vocabulary of `▁` tokens, made by hand, with <unk>."""
    tokens = ["<unk>", *words]
    surfaces = [b"", *(word.replace("▁", " ").encode() for word in words)]
    special = np.array([True] + [False] * len(words))
    return Vocabulary(tokens, surfaces, np.zeros(len(tokens), dtype=bool), special, {"unk": 0})


class Pieces:
    """Cuts a text into the given parts."""

    def __init__(self, cut):
        self.cut = cut

    def decompose(self, keys):
        found = [(n, i) for n, key in enumerate(keys) for i in self.cut.get(key, [])]
        columns = np.array(found, dtype=np.int64).reshape(-1, 2)
        return columns[:, 0], columns[:, 1]


def pairs_of(entries):
    columns = np.array([(t, s, c) for (t, s), c in entries.items()], dtype=float).reshape(-1, 3)
    return TokenPairs(columns[:, 0].astype(np.int64), columns[:, 1].astype(np.int64), columns[:, 2])


def rows_of(mapping):
    return [
        dict(zip(mapping.source_ids[a:b].tolist(), mapping.weights[a:b].tolist(), strict=True))
        for a, b in zip(mapping.indptr[:-1], mapping.indptr[1:], strict=True)
    ]


def test_two_source_languages():
    """Rows of each language are divided by their sums before they are averaged; who has no pairs does not count."""
    source = vocabulary(["▁a", "▁b", "▁c", "▁both"])
    target = vocabulary(["▁x", "▁y", "▁z", "▁both", "▁xx"])
    english = pairs_of({(1, 1): 900.0, (1, 2): 100.0, (2, 1): 5.0})
    russian = pairs_of({(1, 3): 10.0, (3, 2): 40.0, (4, 3): 3.0})
    config = MappingConfig(method=METHOD, trans_tokenization={"source_languages": {"en": 3.0, "ru": 1.0}})
    given = Ingredients(target, source, Pieces({}), config, pairs_of={"en": english, "ru": russian})
    rows = rows_of(load_initialiser(METHOD).build(given))
    assert rows[1] == pytest.approx({1: 0.9 * 0.75, 2: 0.1 * 0.75, 3: 0.25})
    assert rows[2] == pytest.approx({1: 1.0})
    assert rows[3] == pytest.approx({2: 1.0})
    # aligned in Russian only: smoothing is added there, and English, which has no pair of it, does not count
    assert rows[4] == pytest.approx({3: 0.75, 4: 0.25})
    # no pairs in either: the fallback reads the merged rows
    assert rows[5] == pytest.approx(rows[1])


@settings(max_examples=30, deadline=None)
@property_of(st.integers(0, 10_000))
def test_languages_against_a_slow_implementation(seed):
    rng = np.random.default_rng(seed)
    source, target = vocabulary([f"▁s{i}" for i in range(6)]), vocabulary([f"▁t{i}" for i in range(5)])
    weights = {code: float(rng.uniform(0.1, 3)) for code in ("en", "ru", "fr")}
    counts = {
        code: {(int(rng.integers(1, 6)), int(rng.integers(1, 7))): float(rng.uniform(0.1, 9)) for _ in range(5)}
        for code in weights
    }
    config = MappingConfig(method=METHOD, smoothing=0.0, trans_tokenization={"source_languages": weights})
    pairs = {code: pairs_of(entries) for code, entries in counts.items()}
    rows = rows_of(load_initialiser(METHOD).build(Ingredients(target, source, Pieces({}), config, pairs_of=pairs)))
    for t in range(1, 6):
        total, share = defaultdict(float), 0.0
        for code, weight in weights.items():
            row = {s: c for (t2, s), c in counts[code].items() if t2 == t}
            share += weight if row else 0.0
            for s, c in row.items():
                total[s] += weight * c / sum(row.values())
        if share:
            assert rows[t] == pytest.approx({s: w / share for s, w in total.items()}, abs=1e-9)


def slow_entry(n, m):
    """{(target position, source position): count} of one entry of n source and m target tokens."""
    found = {}
    for j in range(m):
        start, end = Fraction(j * n, m), Fraction((j + 1) * n, m)
        for i in range(n):
            overlap = max(Fraction(0), min(end, Fraction(i + 1)) - max(start, Fraction(i)))
            found[j, i] = (Fraction(1, n) + overlap / (end - start)) / 2
    return found


@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 2), (2, 3), (1, 4), (5, 1), (4, 6)])
def test_an_entry_counts_once_and_is_shared_out(n, m):
    source, target = Pieces({" old": list(range(1, n + 1))}), Pieces({" new": list(range(1, m + 1))})
    found = dictionary_pairs([("old", "new")], source, target, 10)
    entries = {(int(t), int(s)): c for t, s, c in zip(found.target_ids, found.source_ids, found.counts, strict=True)}
    assert entries == pytest.approx({(j + 1, i + 1): float(c) for (j, i), c in slow_entry(n, m).items()})
    assert np.bincount(found.target_ids, found.counts)[1:] == pytest.approx(np.ones(m))


def test_two_against_three_as_in_the_paper():
    """2 target tokens, 3 source tokens, in order: the first target token takes 2/3 of the first, 1/3 of the second."""
    in_order = {pair: 2 * c - Fraction(1, 3) for pair, c in slow_entry(3, 2).items()}
    assert [in_order[0, i] for i in range(3)] == [Fraction(2, 3), Fraction(1, 3), 0]
    found = dictionary_pairs([("o", "n")], Pieces({" o": [1, 2, 3]}), Pieces({" n": [1, 2]}), 10)
    assert found.counts[:3] == pytest.approx([(1 / 3 + 2 / 3) / 2, (1 / 3 + 1 / 3) / 2, (1 / 3 + 0) / 2])


def test_equal_entries_add_up_and_unknown_texts_do_nothing():
    source, target = Pieces({" a": [1], " b": [2, 2]}), Pieces({" x": [3]})
    found = dictionary_pairs([("a", "x"), ("a", "x"), ("b", "x"), ("?", "x"), ("a", "?")], source, target, 10)
    assert found.target_ids.tolist() == [3, 3]
    assert found.source_ids.tolist() == [1, 2]
    assert found.counts == pytest.approx([2.0, 1.0])
    assert len(dictionary_pairs([("?", "?")], source, target, 10).counts) == 0


def test_dictionary_instead_of_counts(given_for, tmp_path):
    given, _ = given_for(
        ("metaspace", "english"), ("metaspace", "dutch"), trans_tokenization={"dictionary": "words.tsv"}
    )
    assert given.config.needs() == ()
    (tmp_path / "words.tsv").write_text("mill\tmolen\nthe\tde\nold\toude\n")
    given = replace(given, files={"dictionary": tmp_path / "words.tsv"})
    mapping = load_initialiser(METHOD).build(given)
    new, old = given.tokenizers
    for one, two in (("mill", "molen"), ("the", "de")):
        s, t = (tokenizer(text, add_special_tokens=False)["input_ids"] for tokenizer, text in ((old, one), (new, two)))
        assert all(mapping.origins()[i] == "aligned" for i in t)
        assert set(s) <= {piece for i in t for piece in rows_of(mapping)[i]}


def test_settings_that_do_not_go_together():
    with pytest.raises(ValidationError, match="a dictionary has no published counts"):
        MappingConfig(trans_tokenization={"dictionary": "d", "compat": "published"})
    with pytest.raises(ValidationError, match="read with compat 'published' only"):
        MappingConfig(trans_tokenization={"translation_table": "t"})
