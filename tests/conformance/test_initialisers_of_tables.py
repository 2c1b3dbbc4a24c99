"""avg, clp and sava against slow implementations: loops over strings, one token at a time.

The slow versions pair tokens by their strings in one alphabet, and fit SAVA's map with torch's own layer, loss and
optimizer on all the rows.
"""

import string

import numpy as np
import pytest
import torch

from configs.schema import MappingConfig
from tasks.contract import InputError
from tasks.embeddings.canonical import Vocabulary
from tasks.embeddings.dense_rows import DenseRows
from tasks.embeddings.registry import Helper, Ingredients, Tables, load_initialiser

WORDS = [first + second for first in string.ascii_lowercase for second in string.ascii_lowercase]


def vocabulary(words, special=("<unk>", "<s>", "</s>")):
    tokens = [*special, *words]
    flags = np.arange(len(tokens)) < len(special)
    surfaces = [b"" if flag else token.replace("▁", " ").encode() for flag, token in zip(flags, tokens, strict=True)]
    roles = {role: tokens.index(name) for role, name in (("unk", "<unk>"), ("bos", "<s>"), ("eos", "</s>"))}
    return Vocabulary(tokens, surfaces, np.zeros(len(tokens), dtype=bool), flags, roles)


class Letters:
    """Pieces: the letters that the source has."""

    def __init__(self, source):
        self.source = source

    def decompose(self, keys):
        found = [
            (n, self.source.tokens.index(letter))
            for n, key in enumerate(keys)
            for letter in key
            if letter in self.source.tokens
        ]
        pairs = np.array(found, dtype=np.int64).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1]


class Case:
    """Source, target and helper vocabularies that overlap in part, and random tables."""

    def __init__(self, tied=False, helper_tied=False, seed=0, mean=0.3):
        chooser = np.random.default_rng(seed)
        words = chooser.permutation(WORDS).tolist()
        self.source = vocabulary(["a", "e", "i", *words[:300]])
        self.target = vocabulary(words[150:400])
        helper_words = [*words[200:390], *words[150:180]]
        self.helper_vocabulary = vocabulary(chooser.permutation(helper_words).tolist())
        table = lambda rows, width: (chooser.normal(size=(rows, width)) + mean).astype(np.float32)  # noqa: E731
        padding = 5  # rows beyond the vocabulary
        self.tables = Tables(table(len(self.source) + padding, 12), None if tied else table(len(self.source) + 5, 12))
        rows = len(self.helper_vocabulary)
        self.helper = Helper(self.helper_vocabulary, Tables(table(rows, 7), None if helper_tied else table(rows, 7)))

    def given(self, **config):
        return Ingredients(
            self.target,
            self.source,
            Letters(self.source),  # type: ignore[arg-type]
            MappingConfig(**config),
            source_tables=lambda: self.tables,
            helper=lambda: self.helper,
        )

    def build(self, **config):
        built = load_initialiser(config["method"]).build(self.given(**config))
        assert isinstance(built, DenseRows)
        return built

    def sides(self):
        """(source table, helper table) by name."""
        own = self.helper.tables
        sides = {"input": (self.tables.input, own.input)}
        if self.tables.head is not None:
            sides["head"] = (self.tables.head, own.input if own.head is None else own.head)
        return sides

    def shared(self):
        return [token for token in self.target.tokens if token in self.source.tokens]

    def anchors(self):
        return [token for token in self.shared() if token in self.helper_vocabulary.tokens]

    def copy_or_letters(self, token, table):
        if token in self.source.tokens:
            return table[self.source.tokens.index(token)]
        letters = [self.source.tokens.index(letter) for letter in token if letter in self.source.tokens]
        return np.mean([table[i].astype(float) for i in letters or [self.source.roles["unk"]]], axis=0)


def new_table(built, name, table):
    """The new table: the mapping times the old one, and the rows given as numbers."""
    result = built.mapping.apply(torch.from_numpy(table)).numpy().astype(np.float64)
    result[built.rows] = getattr(built, name)
    return result


CASES = [{}, {"tied": True}, {"helper_tied": True}, {"mean": 0.0, "seed": 1}]


@pytest.mark.parametrize("options", CASES)
def test_avg(options):
    case = Case(**options)
    built = case.build(method="avg")
    assert (built.head is None) is bool(case.tables.head is None)
    for name, (table, _) in case.sides().items():
        mean = np.mean([table[case.source.tokens.index(token)].astype(float) for token in case.shared()], axis=0)
        expected = [
            table[case.source.tokens.index(token)] if token in case.source.tokens else mean
            for token in case.target.tokens
        ]
        np.testing.assert_allclose(new_table(built, name, table), expected, atol=1e-6)
    assert set(built.mapping.origins()) == {"special", "shared", "average"}


def slow_clp(case, token, table, helper, drop):
    def cosine(one, other):
        a, b = (helper[case.helper_vocabulary.tokens.index(name)].astype(float) for name in (one, other))
        return a @ b / np.sqrt(a @ a) / np.sqrt(b @ b)

    weights = {other: cosine(token, other) for other in case.anchors()}
    if drop:
        weights = {other: max(0.0, weight) for other, weight in weights.items()}
    total = sum(weights.values())
    rows = {other: table[case.source.tokens.index(other)].astype(float) for other in weights}
    return sum(weight / total * rows[other] for other, weight in weights.items())


@pytest.mark.parametrize("negative", ["keep", "drop"])
@pytest.mark.parametrize("options", CASES[:3])
def test_clp(options, negative):
    case = Case(**options)
    built = case.build(method="clp", clp={"negative": negative})
    for name, (table, helper) in case.sides().items():
        expected = []
        for token in case.target.tokens:
            by_helper = token not in case.source.tokens and token in case.helper_vocabulary.tokens
            row = slow_clp(case, token, table, helper, negative == "drop") if by_helper else None
            expected.append(case.copy_or_letters(token, table) if row is None else row)
        np.testing.assert_allclose(new_table(built, name, table), expected, atol=1e-6)
    assert {"special", "shared", "clp", "fallback-decomposition"} <= set(built.mapping.origins())


def test_clp_with_cosines_of_every_sign():
    """Sums near 0 make long rows, as published; the direction of every row is still right."""
    case = Case(mean=0.0, seed=1)
    built = case.build(method="clp")
    table, helper = case.sides()["input"]
    for row, token in zip(built.input, built.rows.tolist(), strict=True):
        expected = slow_clp(case, case.target.tokens[token], table, helper, False)
        np.testing.assert_allclose(row, expected, rtol=1e-6, atol=1e-6)


def slow_sava(case, table, helper, steps, seed):
    """All rows of the helper in the source's space, with torch's own parts in float64."""
    x = torch.tensor(np.stack([helper[case.helper_vocabulary.tokens.index(t)] for t in case.anchors()]), dtype=float)
    y = torch.tensor(np.stack([table[case.source.tokens.index(t)] for t in case.anchors()]), dtype=float)
    scaled, lengths = [], []
    for side in (x, y):
        standard = (side - side.mean(dim=0)) / side.std(dim=0)
        lengths.append(standard.norm(dim=1).mean())
        scaled.append(standard / standard.norm(dim=1, keepdim=True))
    torch.manual_seed(seed)
    layer = torch.nn.Linear(x.shape[1], y.shape[1]).double()
    optimizer = torch.optim.Adam(layer.parameters(), lr=1e-3)
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(layer(scaled[0]), scaled[1]).backward()
        optimizer.step()
    standard = (torch.tensor(helper, dtype=float) - x.mean(dim=0)) / x.std(dim=0)
    image = layer(standard / standard.norm(dim=1, keepdim=True)).detach()
    return (image * lengths[1] * y.std(dim=0) + y.mean(dim=0)).numpy()


@pytest.mark.parametrize("options", CASES)
def test_sava(options):
    case = Case(**options)
    built = case.build(method="sava", sava={"steps": 100}, seed=4)
    for name, (table, helper) in case.sides().items():
        image = slow_sava(case, table, helper, 100, seed=4)
        expected = []
        for token in case.target.tokens:
            by_helper = token not in case.source.tokens and token in case.helper_vocabulary.tokens
            row = image[case.helper_vocabulary.tokens.index(token)] if by_helper else None
            expected.append(case.copy_or_letters(token, table) if row is None else row)
        np.testing.assert_allclose(new_table(built, name, table), expected, atol=1e-6)
    assert {"special", "shared", "sava", "fallback-decomposition"} <= set(built.mapping.origins())


def test_sava_finds_a_linear_map():
    """Where the source rows are a linear image of the helper's, the new rows point (nearly) where theirs do."""
    case = Case(helper_tied=True, tied=True)
    chooser = np.random.default_rng(3)
    wide = chooser.normal(size=(7, 12)).astype(np.float32)
    for i, token in enumerate(case.source.tokens):
        if token in case.helper_vocabulary.tokens:
            case.tables.input[i] = case.helper.tables.input[case.helper_vocabulary.tokens.index(token)] @ wide
    built = case.build(method="sava", sava={"steps": 2000})
    truth = np.stack([
        case.helper.tables.input[case.helper_vocabulary.tokens.index(case.target.tokens[t])] @ wide
        for t in built.rows.tolist()
    ])  # fmt: skip
    cosine = (built.input * truth).sum(1) / np.linalg.norm(built.input, axis=1) / np.linalg.norm(truth, axis=1)
    assert cosine.mean() > 0.98
    assert cosine.min() > 0.9


def test_sava_depends_on_the_seed_alone():
    case = Case()
    first, again = (case.build(method="sava", sava={"steps": 20}, seed=1) for _ in range(2))
    other = case.build(method="sava", sava={"steps": 20}, seed=2)
    assert np.array_equal(first.input, again.input)
    assert not np.array_equal(first.input, other.input)
    few = case.build(method="sava", sava={"steps": 20, "anchors": 10}, seed=1)
    assert not np.array_equal(first.input, few.input)


@pytest.mark.parametrize("method", ["avg", "clp", "sava"])
def test_no_shared_token_is_refused(method):
    case = Case()
    case.source = vocabulary(["Ж"])
    with pytest.raises(InputError, match="take 'mean'"):
        case.build(method=method)


@pytest.mark.parametrize("method", ["avg", "clp", "sava"])
def test_tokens_beyond_the_source_table_are_not_shared(method):
    """A source tokenizer with tokens added behind the model's rows: they have nothing to copy."""
    case = Case()
    rows = len(case.source) - 20
    full = case.tables
    case.tables = Tables(full.input[:rows], full.head[:rows])
    built = case.build(method=method)
    assert built.mapping.source_ids.max() < rows
    assert built.input.shape == built.head.shape


def test_equal_texts_and_padding_rows_change_nothing():
    """NaN in rows beyond the vocabulary is never read; a text that two source tokens stand for is found once."""
    case = Case()
    plain = case.build(method="clp")
    case.tables.input[len(case.source) :] = np.nan
    assert np.array_equal(case.build(method="clp").input, plain.input)
    case.helper.tables.input[3] = 0  # no direction
    assert np.isfinite(case.build(method="clp").input).all()


@pytest.mark.parametrize(
    ("method", "settings", "sizes"),
    [
        ("avg", {}, {"_BLOCK": 7}),
        ("clp", {}, {"_ROWS": 7}),
        ("clp", {"clp": {"negative": "drop"}}, {"_BLOCK": 1000}),
        ("sava", {"sava": {"steps": 20}}, {"_ROWS": 7}),
    ],
)
def test_tables_larger_than_a_block(monkeypatch, method, settings, sizes):
    case = Case()
    whole = case.build(method=method, **settings)
    for name, value in sizes.items():
        monkeypatch.setattr(f"tasks.embeddings.init.{method}.{name}", value)
    parts = case.build(method=method, **settings)
    for name in ("input", "head"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-5, atol=1e-6)


def test_sava_on_a_gpu_that_is_not_there():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(InputError, match="device 'cuda' is not available on this machine: set device to 'auto'"):
        Case().build(method="sava", sava={"device": "cuda"})
