"""VocADT's initial adapter matrix against a dense one, filled token by token as section 3.2 says."""

from dataclasses import replace

import numpy as np
import pytest

from tasks.embeddings.dense_rows import DenseRows
from tasks.embeddings.init.vocadt import random_weights
from tasks.embeddings.registry import load_initialiser


def slow_adapter(given, seed):
    """A, dense; which rows are random."""
    new, old = given.tokenizers
    roles = ("bos", "eos", "unk", "pad")
    old_tokens = {given.source.surfaces[i]: i for i in range(len(given.source)) if not given.source.special[i]}
    matrix = np.zeros((len(given.target), len(given.source)))
    random = []
    for i, token in enumerate(given.target.tokens):
        role = next((role for role in roles if getattr(new, f"{role}_token") == token), None)
        if role is not None:
            same = getattr(old, f"{role}_token_id")
            if same is not None:
                matrix[i, same] = 1
            else:
                random.append(i)
            continue
        text = given.target.surfaces[i]
        if text in old_tokens:
            matrix[i, old_tokens[text]] = 1
            continue
        pieces = slow_cut(old, text)
        if not pieces or old.unk_token_id in pieces:
            random.append(i)
            continue
        for piece in pieces:
            matrix[i, piece] += 1 / len(pieces)
    for i in random:
        u = np.random.default_rng((seed, i)).random(len(given.source))
        matrix[i] = u / u.sum()
    return matrix, random


def slow_cut(tokenizer, data):
    """Tokens of some bytes, with the tokenizer's word start only where the bytes have one."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return [tokenizer.unk_token_id]
    if tokenizer.unk_token_id is None:
        return tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids
    if text.startswith(" "):
        return tokenizer.backend_tokenizer.encode(text[1:], add_special_tokens=False).ids
    split = tokenizer.backend_tokenizer.encode("|" + text, add_special_tokens=False)  # "|" is unknown to all
    assert split.tokens[1] == "<unk>"
    return split.ids[2:]


@pytest.mark.parametrize("target", [("metaspace", "dutch"), ("metaspace", "russian")])
@pytest.mark.parametrize("source", [("metaspace", "english"), ("byte-level", "english")])
def test_equals_the_slow_implementation(given_for, source, target):
    given, tables = given_for(source, target, method="vocadt", seed=3)
    matrix, random = slow_adapter(given, seed=3)
    found = load_initialiser("vocadt").build(given)
    mapping = found.mapping if isinstance(found, DenseRows) else found
    assert np.flatnonzero(~mapping.covered()).tolist() == random
    dense = np.zeros(mapping.shape)
    dense[mapping.rows.row_of_entry(), mapping.source_ids] = mapping.weights
    dense[random] = matrix[random]
    assert np.abs(dense - matrix).max() < 1e-12
    if random:
        assert found.rows.tolist() == random
        assert np.abs(found.input - matrix[random] @ tables.input).max() < 1e-6
        assert np.abs(found.head - matrix[random] @ tables.head).max() < 1e-6


def test_two_tokenisations_of_one_word_are_halves(given_for):
    given, _ = given_for(("metaspace", "english"), ("metaspace", "dutch"), method="vocadt")
    found = load_initialiser("vocadt").build(given)
    mapping = getattr(found, "mapping", found)
    for i, name in enumerate(mapping.origins()):
        weights = mapping.weights[mapping.indptr[i] : mapping.indptr[i + 1]]
        if name == "decomposed" and len(weights) == 2:
            assert sorted(weights) in ([0.5, 0.5], pytest.approx([1 / 3, 2 / 3]), pytest.approx([1 / 4, 3 / 4]))
            return
    pytest.fail("no token of two pieces")


def test_random_weights_are_the_same_for_the_same_seed_and_token():
    one = random_weights(7, 50, seed=1)
    assert np.array_equal(one, random_weights(7, 50, seed=1))
    assert not np.array_equal(one, random_weights(8, 50, seed=1))
    assert not np.array_equal(one, random_weights(7, 50, seed=2))
    assert one.sum() == pytest.approx(1.0)


def test_random_rows_need_the_tables(given_for):
    given, _ = given_for(("metaspace", "english"), ("metaspace", "russian"), method="vocadt")
    with pytest.raises(ValueError, match="tokens have random rows, which need the source model's tables"):
        load_initialiser("vocadt").build(replace(given, source_tables=None))
