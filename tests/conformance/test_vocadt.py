"""VocADT's initial adapter matrix against a dense one, filled token by token as section 3.2 says."""

from dataclasses import replace

import numpy as np
import pytest
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from configs.schema import MappingConfig
from tasks.embeddings.canonical import vocabulary_of
from tasks.embeddings.dense_rows import DenseRows
from tasks.embeddings.init.vocadt import random_weights
from tasks.embeddings.registry import Ingredients, load_initialiser
from tasks.embeddings.source_pieces import SourcePieces


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


def test_a_piece_that_occurs_twice_counts_twice():
    """The new row is the mean of the pieces' embeddings: of 'a', 'a' and 'b', 2/3 and 1/3."""
    old, new = (
        PreTrainedTokenizerFast(
            tokenizer_object=Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
        )
        for tokens, merges in ((["a", "b"], []), (["a", "b", "ab", "aab"], [("a", "b"), ("a", "ab")]))
    )
    source, target = vocabulary_of(old), vocabulary_of(new)
    given = Ingredients(target, source, SourcePieces(old, source), MappingConfig(method="vocadt"))
    mapping = load_initialiser("vocadt").build(given)
    assert mapping.origins() == ["shared", "shared", "decomposed", "decomposed"]
    assert mapping.source_ids[mapping.indptr[2] :].tolist() == [0, 1, 0, 1]
    assert mapping.weights[mapping.indptr[2] :] == pytest.approx([1 / 2, 1 / 2, 2 / 3, 1 / 3])


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
