import math
from collections import defaultdict
from collections.abc import Callable

import numpy as np
import pytest

from tasks.alignment import compiled as compiled_module
from tasks.alignment.cells import Bitext, build_cells
from tasks.alignment.fast_align_kernels import digamma, expected_feature, maximisation, normaliser
from tasks.alignment.fast_align_model import ModelSettings, train

EULER = 0.5772156649015329


def test_digamma_at_known_points() -> None:
    assert digamma(1.0) == pytest.approx(-EULER, abs=1e-9)
    assert digamma(0.5) == pytest.approx(-EULER - 2 * math.log(2), abs=1e-9)
    assert digamma(10.0) == pytest.approx(sum(1 / k for k in range(1, 10)) - EULER, abs=1e-9)
    assert digamma(0.01) == pytest.approx(digamma(1.01) - 100, abs=1e-9)


def weights(j: int, m: int, n: int, tension: float) -> list[tuple[float, float]]:
    features = [-abs(i / n - j / m) for i in range(1, n + 1)]
    return [(feature, math.exp(tension * feature)) for feature in features]


@pytest.mark.parametrize("tension", [0.1, 4.0, 13.9])
@pytest.mark.parametrize(("m", "n"), [(1, 1), (1, 7), (7, 1), (5, 5), (9, 4), (4, 9), (40, 31)])
def test_normaliser_is_the_sum(m: int, n: int, tension: float) -> None:
    for j in range(1, m + 1):
        assert normaliser(j, m, n, tension) == pytest.approx(sum(w for _, w in weights(j, m, n, tension)), rel=1e-10)


@pytest.mark.parametrize("tension", [0.5, 4.0, 14.0])
@pytest.mark.parametrize(("m", "n"), [(1, 1), (6, 6), (9, 4), (4, 9)])
def test_expected_feature_divides_by_the_normaliser_of_the_exchanged_lengths(m: int, n: int, tension: float) -> None:
    for j in range(1, m + 1):
        total = sum(feature * weight for feature, weight in weights(j, m, n, tension))
        assert expected_feature(j, m, n, tension) == pytest.approx(total / normaliser(j, n, m, tension), rel=1e-8)


def test_normaliser_beyond_the_sentence_has_endless_terms_above() -> None:
    # j = 3 of m = 2 with n = 4: the diagonal is at 6, so 4 - 6 wraps round to nearly 2^32 terms.
    ratio = math.exp(-4.0 / 4)
    above = math.exp(-4.0 * (7 / 4 - 3 / 2)) / (1 - ratio)
    below = math.exp(-4.0 * abs(6 / 4 - 3 / 2)) * (1 - ratio**6) / (1 - ratio)
    assert normaliser(3, 2, 4, 4.0) == pytest.approx(above + below, rel=1e-12)


def test_maximisation_by_hand() -> None:
    counts, rows = np.array([1.0, 3.0, 2.0]), np.array([0, 0, 2], dtype=np.int32)
    assert maximisation(counts, rows, 4, 0.0).tolist() == [0.25, 0.75, 1.0]
    expected = [math.exp(digamma(c + 0.5) - digamma(t)) for c, t in ((1.0, 5.0), (3.0, 5.0), (2.0, 2.5))]
    assert maximisation(counts, rows, 4, 0.5) == pytest.approx(expected)


def slow_em(
    bitext: Bitext, settings: ModelSettings, reverse: bool
) -> tuple[list[tuple[float, ...]], dict, list[list[float]]]:
    """EM with dictionaries and explicit sums: figures of the passes, last counts, last joint probabilities."""
    pairs = [
        (
            bitext.source[bitext.source_offsets[p] : bitext.source_offsets[p + 1]].tolist(),
            bitext.target[bitext.target_offsets[p] : bitext.target_offsets[p + 1]].tolist(),
        )
        for p in range(len(bitext))
    ]
    if reverse:
        pairs = [(target, source) for source, target in pairs]
    words = sum(len(generated) for _, generated in pairs)
    table: dict = defaultdict(lambda: 1e-9)
    tension, figures = settings.tension, []
    for number in range(1, settings.iterations + 1):
        counts: dict = defaultdict(float)
        likelihood, null, feature, joints = 0.0, 0.0, 0.0, []
        for given, generated in pairs:
            m, n = len(generated), len(given)
            for j, word in enumerate(generated):
                if settings.diagonal:
                    shape = [w for _, w in weights(j + 1, m, n, tension)]
                    prior = [settings.p_null] + [(1 - settings.p_null) * w / sum(shape) for w in shape]
                else:
                    prior = [1 / (n + 1)] * (n + 1)
                joint = [p * table[g, word] for p, g in zip(prior, [None, *given], strict=True)]
                total = sum(joint)
                likelihood += math.log(total)
                joints.append(joint)
                null += joint[0] / total
                for i, (value, word_given) in enumerate(zip(joint, [None, *given], strict=True)):
                    counts[word_given, word] += value / total
                    if i > 0:
                        feature -= abs(i / n - j / m) * value / total
        figures.append((likelihood, math.exp(-likelihood / words), tension, null / words, feature / words))
        if settings.diagonal and settings.optimize_tension and 1 < number < settings.iterations:
            for _ in range(8):
                model = sum(
                    expected_feature(j, len(generated), len(given), tension)
                    for given, generated in pairs
                    for j in range(1, len(generated) + 1)
                )
                tension = min(max(tension + 20 * (feature / words - model / words), 0.1), 14.0)
        rows: dict = defaultdict(float)
        for (given_word, _), count in counts.items():
            rows[given_word] += count + settings.alpha
        table = {
            key: math.exp(digamma(count + settings.alpha) - digamma(rows[key[0]]))
            if settings.alpha
            else count / rows[key[0]]
            for key, count in counts.items()
        }
    return figures, counts, joints


SETTINGS = [
    ModelSettings(),
    ModelSettings(diagonal=False, alpha=0.0, iterations=6),
    ModelSettings(alpha=0.0, optimize_tension=False, tension=2.0, p_null=0.2),
    ModelSettings(diagonal=False, alpha=0.1),
    ModelSettings(iterations=1),
    ModelSettings(p_null=0.0),
]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("settings", SETTINGS)
def test_training_equals_a_slow_implementation(small_bitext: Bitext, settings: ModelSettings, reverse: bool) -> None:
    cells = build_cells(small_bitext)
    direction = train(small_bitext, cells, settings, reverse)
    figures, counts, joints = slow_em(small_bitext, settings, reverse)
    found = [(i.log_likelihood, i.perplexity, i.tension, i.p_null, i.feature) for i in direction.iterations]
    assert np.array(found) == pytest.approx(np.array(figures), rel=1e-7, abs=1e-12)
    for source, target, count in zip(cells.source, cells.target, direction.counts, strict=True):
        key = (target, source) if reverse else (source, target)
        assert count == pytest.approx(counts[key], rel=1e-6, abs=1e-9)
    for word, count in enumerate(direction.null_counts):
        assert count == pytest.approx(counts[None, word], rel=1e-6, abs=1e-9)
    for best, joint in zip(direction.best, joints, strict=True):  # words at the same distance tie but for rounding
        assert joint[best + 1] == pytest.approx(max(joint), rel=1e-6)
        assert joint.index(max(joint)) == best + 1 or sorted(joint)[-2] == pytest.approx(max(joint), rel=1e-6)


def test_posteriors_of_a_word_add_up_to_its_frequency(small_bitext: Bitext) -> None:
    cells = build_cells(small_bitext)
    direction = train(small_bitext, cells, ModelSettings())
    total = np.bincount(cells.target, direction.counts) + direction.null_counts
    assert total == pytest.approx(np.bincount(small_bitext.target).astype(float))


def test_cells_point_to_their_word_pair(small_bitext: Bitext) -> None:
    cells = build_cells(small_bitext)
    pairs = set()
    for p in range(len(small_bitext)):
        source = small_bitext.source[small_bitext.source_offsets[p] : small_bitext.source_offsets[p + 1]]
        target = small_bitext.target[small_bitext.target_offsets[p] : small_bitext.target_offsets[p + 1]]
        for j, word in enumerate(target):
            for i, given in enumerate(source):
                number = cells.parameter[cells.offsets[p] + j * len(source) + i]
                assert (cells.source[number], cells.target[number]) == (given, word)
                pairs.add((given, word))
    assert len(cells.source) == len(pairs)
    assert (np.diff(cells.source) >= 0).all()


def test_a_large_index_is_kept_in_a_file(
    small_bitext: Bitext, tmp_path: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.alignment.cells.IN_MEMORY_CELLS", 10)
    cells = build_cells(small_bitext, tmp_path)
    assert (tmp_path / "cells.int32").stat().st_size == 4 * len(cells.parameter)
    assert (cells.parameter == build_cells(small_bitext).parameter).all()


@pytest.mark.parametrize("settings", [*SETTINGS, ModelSettings(alpha=1e-6, iterations=8, tension=500.0)])
def test_degenerate_corpora_give_finite_figures(bitext_of: Callable[..., Bitext], settings: ModelSettings) -> None:
    corpora = [
        [([0], [0])],
        [([0, 1, 2], [2, 1, 0, 3])] * 1000,
        [([0] * 50, [0])],
        [([0], [0] * 300), ([0] * 300, [0])],
        [(list(range(200)), list(range(200)))],
    ]
    for pairs in corpora:
        bitext = bitext_of(pairs)
        direction = train(bitext, build_cells(bitext), settings)
        for figures in direction.iterations:
            assert np.isfinite([figures.log_likelihood, figures.perplexity, figures.tension, figures.p_null]).all()
        assert np.isfinite(direction.counts).all()
        assert direction.counts.sum() + direction.null_counts.sum() == pytest.approx(len(bitext.target))


def test_counts_by_another_vocabulary_add_up_to_the_same(bitext_of: Callable[..., Bitext]) -> None:
    cased = bitext_of(
        [([0, 1], [0, 2]), ([2, 1], [1, 2]), ([2], [0])]
    )  # words 0 and 2 of the source are one in lower case
    lower = Bitext(
        np.array([0, 1, 0], np.int32)[cased.source],
        cased.source_offsets,
        np.array([0, 0, 1], np.int32)[cased.target],
        cased.target_offsets,
        2,
        2,
    )
    cells, counted = build_cells(lower), build_cells(cased)
    plain = train(lower, cells, ModelSettings())
    direction = train(lower, cells, ModelSettings(), counted=counted)
    assert direction.iterations == plain.iterations
    sums: dict = defaultdict(float)
    for s, t, count in zip(counted.source, counted.target, direction.counts, strict=True):
        sums[[0, 1, 0][s], [0, 0, 1][t]] += count
    for s, t, count in zip(cells.source, cells.target, plain.counts, strict=True):
        assert sums[s, t] == pytest.approx(count)


def test_kernels_compile_where_no_cache_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    import numba

    njit = numba.njit

    def refuse(cache: bool = False, **options: bool) -> object:
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return njit(**options)

    monkeypatch.setattr(compiled_module.numba, "njit", refuse)

    @compiled_module.compiled
    def double(x: int) -> int:
        return 2 * x

    assert double(4) == 8
