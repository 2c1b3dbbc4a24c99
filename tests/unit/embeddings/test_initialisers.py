"""The mean and random initialisers, the source tokenizer's pieces, and special tokens."""

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from transformers import AutoTokenizer

from configs.schema import METHOD_NEEDS, MappingConfig, Method
from tasks.embeddings.canonical import Vocabulary, vocabulary_of
from tasks.embeddings.dense_rows import DenseRows
from tasks.embeddings.matching import identical_tokens, special_tokens
from tasks.embeddings.registry import INITIALISERS, Helper, Ingredients, Tables, TokenPairs, load_initialiser
from tasks.embeddings.source_pieces import SourcePieces


def tables(rows, width):
    chooser = np.random.default_rng(rows)
    return Tables(*(chooser.normal(size=(rows, width)).astype(np.float32) for _ in range(2)))


@pytest.fixture
def ingredients(tokenizers, held_out):
    """Makes what an initialiser may use, all of it but parallel text: (source, target, values of `mapping`)."""

    def make(source, target, **config):
        fast = AutoTokenizer.from_pretrained(str(tokenizers[source]))
        vocabulary = vocabulary_of(fast)
        new = AutoTokenizer.from_pretrained(str(tokenizers[target]))
        helper = Helper(vocabulary_of(new), tables(len(new), 6))
        return Ingredients(
            target=vocabulary_of(new),
            tokenizers=(new, fast),
            corpus=held_out,
            source_tables=lambda: tables(len(vocabulary), 8),
            helper=lambda: helper,
            source=vocabulary,
            pieces=SourcePieces(fast, vocabulary),
            config=MappingConfig(**config),
            pairs=TokenPairs(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)),
        )

    return make


def row(mapping, given, token):
    t = list(given.target.tokens).index(token)
    entries = slice(mapping.indptr[t], mapping.indptr[t + 1])
    found = zip(mapping.source_ids[entries], mapping.weights[entries], strict=True)
    return {given.source.tokens[s]: pytest.approx(w) for s, w in found}, mapping.origins()[t]


TRAINED = {"focus", "ofa", "wechsel"}  # on text, or read from files


@pytest.mark.parametrize("name", sorted(set(INITIALISERS) - TRAINED))
@pytest.mark.parametrize("source", ["english", "english-bytes"])
@pytest.mark.parametrize("target", ["dutch", "russian", "russian-bytes"])
def test_every_initialiser_on_every_kind_of_tokenizer(ingredients, name, source, target):
    given = ingredients(source, target, method=name)
    built = load_initialiser(name).build(given)
    mapping = built.mapping if isinstance(built, DenseRows) else built
    assert mapping.shape == (len(given.target), len(given.source))
    uncovered = ~mapping.covered()
    if isinstance(built, DenseRows):
        uncovered[built.rows] = False
    if name != "random":  # only what the source has nothing for: an unknown token, padding
        assert set(np.flatnonzero(uncovered)) <= set(np.flatnonzero(given.target.special))
    bos = given.target.roles["bos"]
    assert mapping.source_ids[mapping.indptr[bos]] == given.source.roles["bos"]
    assert mapping.origins()[bos] == "special"


@pytest.mark.parametrize("name", ["random", "trans-tokenization"])
@pytest.mark.parametrize("keep", [True, False])
def test_shared_tokens_keep_their_rows_where_that_is_asked(ingredients, name, keep):
    given = ingredients("english", "dutch", method=name, copy_shared=keep)
    match = identical_tokens(given.target, given.source)
    shared = np.flatnonzero((match >= 0) & ~given.target.special)
    assert len(shared) > 20
    others = np.roll(match[shared], 1)  # each is aligned with another's source token
    built = load_initialiser(name).build(replace(given, pairs=TokenPairs(shared, others, np.full(len(shared), 9.0))))
    for i in shared:
        copy = {given.source.tokens[match[i]]: 1.0}, "shared"
        assert (row(built, given, given.target.tokens[i]) == copy) is keep


def test_unknown_initialiser():
    with pytest.raises(KeyError, match="nothing"):
        load_initialiser("nothing")


def test_mean_takes_the_pieces_with_their_word_start(ingredients):
    given = ingredients("english", "dutch")
    mapping = load_initialiser("mean").build(given)
    cut = [t for t, origin in enumerate(mapping.origins()) if origin == "mean"]
    for t in cut:
        ids = mapping.source_ids[mapping.indptr[t] : mapping.indptr[t + 1]]
        first = [given.source.keys[s] for s in ids if given.source.keys[s].startswith(" ")]
        assert len(first) == given.target.starts_word[t]
    # a token without word start gets pieces without one
    inner = [t for t, key in enumerate(given.target.keys) if key.isalpha() and len(key) > 2]
    for t in inner:
        pieces = {
            given.source.keys[s]: w
            for s, w in zip(
                mapping.source_ids[mapping.indptr[t] : mapping.indptr[t + 1]],
                mapping.weights[mapping.indptr[t] : mapping.indptr[t + 1]],
                strict=True,
            )
        }
        assert not any(key.startswith(" ") for key in pieces)
        assert sum(len(key) for key in pieces) <= len(given.target.keys[t])


def test_mean_copies_shared_tokens_across_alphabets(ingredients):
    given = ingredients("english-bytes", "dutch")
    mapping = load_initialiser("mean").build(given)
    assert row(mapping, given, "e") == ({"e": 1.0}, "shared")
    assert row(mapping, given, "▁") == ({"Ġ": 1.0}, "shared")
    assert row(mapping, given, "<0xC3>") == ({"Ã": 1.0}, "shared")


def test_mean_of_cyrillic_under_byte_fallback(ingredients):
    given = ingredients("english", "russian-bytes")
    mapping = load_initialiser("mean").build(given)
    # the source has no Cyrillic letter
    letter = next(t for t, key in enumerate(given.target.keys) if len(key) == 1 and "а" <= key <= "я")
    one, two = (f"<0x{byte:02X}>" for byte in given.target.surfaces[letter])
    assert row(mapping, given, given.target.tokens[letter]) == ({one: 0.5, two: 0.5}, "mean")
    assert row(mapping, given, "Ð") == ({"<0xD0>": 1.0}, "shared")


def test_pieces_of_partial_characters(ingredients):
    given = ingredients("english", "dutch")
    keys = [key.decode("utf-8", "surrogateescape") for key in (b"\xd0", b" the\xd0", "ж".encode(), b"")]
    positions, ids = given.pieces.decompose(keys)
    tokens = [[given.source.tokens[i] for i in ids[positions == n]] for n in range(4)]
    assert tokens == [["<0xD0>"], ["▁the", "<0xD0>"], ["<0xD0>", "<0xB6>"], []]


def test_random_covers_special_tokens_only(ingredients):
    given = ingredients("english", "dutch", method="random")
    mapping = load_initialiser("random").build(given)
    assert mapping.covered().nonzero()[0].tolist() == [0, 1, 2]
    shared = load_initialiser("random").build(ingredients("english", "dutch", method="random", copy_shared=True))
    assert shared.covered().sum() > 260
    assert set(shared.origins()) == {"special", "shared", "random"}


def vocabulary(tokens, special=(), byte=(), **roles):
    size = len(tokens)
    flags = np.isin(np.arange(size), special), np.isin(np.arange(size), byte)
    surfaces = [b"" if flags[0][i] else token.strip("'").encode() for i, token in enumerate(tokens)]
    return Vocabulary(tokens, surfaces, flags[1], flags[0], roles)


def test_of_two_tokens_with_one_text_the_kind_decides_then_the_string():
    source = vocabulary(["A'", "A", "B''", "B'"], byte=[1])
    target = vocabulary(["A", "A'", "B''", "B", "C"], byte=[1])
    assert identical_tokens(target, source).tolist() == [0, 1, 2, 3, -1]


def test_special_tokens_by_role_then_string_then_stand_in():
    target = vocabulary(["<s>", "</s>", "<pad>", "<|user|>", "[MASK]", "x", "<cls>"], [0, 1, 2, 3, 4, 6],
                        bos=0, eos=1, pad=2, mask=4, cls=6)  # fmt: skip
    source = vocabulary(["[BEGIN]", "[END]", "<pad>", "<|user|>", "x"], [0, 1, 2, 3], bos=0, eos=1)
    assert special_tokens(target, source).tolist() == [0, 1, 2, 3, -1, -1, 0]
    ends = vocabulary(["<|end|>"], [0], bos=0, eos=0, unk=0)
    assert special_tokens(ends, source).tolist() == [1]


@pytest.mark.shared_data
@pytest.mark.parametrize("name", ["gpt2-50k", "gpt-neox-20b"])
def test_real_source(shared_data, tokenizers, name):
    from transformers import PreTrainedTokenizerFast

    path = shared_data / "tokenizers" / name / "tokenizer.json"
    fast = PreTrainedTokenizerFast(tokenizer_file=str(path))
    source = vocabulary_of(fast)
    target = vocabulary_of(AutoTokenizer.from_pretrained(str(tokenizers["russian"])))
    given = Ingredients(target, source, SourcePieces(fast, source), MappingConfig())
    mapping = load_initialiser("mean").build(given)
    known = {surface for surface in source.surfaces if len(surface) == 1}  # GPT-NeoX has no token for some bytes
    for t in np.flatnonzero(~mapping.covered() & ~target.special).tolist():
        assert target.byte[t]
        assert target.surfaces[t] not in known
    for t in range(259, len(target)):
        ids = mapping.source_ids[mapping.indptr[t] : mapping.indptr[t + 1]]
        assert sum(len(source.surfaces[i]) for i in ids) <= len(target.surfaces[t])
        if mapping.origins()[t] == "mean" and len(set(ids.tolist())) == fast_length(fast, target.keys[t]):
            assert sum(len(source.surfaces[i]) for i in ids) == len(target.surfaces[t])


def fast_length(fast, text):
    return len(fast(text, add_special_tokens=False)["input_ids"])


def test_configurations_know_the_initialisers_and_their_needs():
    assert set(get_args(Method)) == set(METHOD_NEEDS) == set(INITIALISERS)
    for name in INITIALISERS:
        assert METHOD_NEEDS[name] == load_initialiser(name).needs, name
