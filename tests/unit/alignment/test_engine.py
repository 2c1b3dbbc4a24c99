import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tasks.alignment import compiled as compiled_module
from tasks.alignment.aligner import Aligned, WordPairs
from tasks.alignment.bitext import Bitext
from tasks.alignment.engine import shards as shards_module
from tasks.alignment.engine.agreement import REACH, SPAN, hmm_expectation, jump_weights, no_jumps
from tasks.alignment.engine.cell_index import fill_cells, first_cells, plan_cells
from tasks.alignment.engine.diagonal import expected_feature, normaliser, prior_tables
from tasks.alignment.engine.em import Trained, train
from tasks.alignment.engine.expected import LEAST_COUNT, Counted
from tasks.alignment.engine.maximisation import exp_digamma
from tasks.alignment.engine.parallel import Threads, split
from tasks.alignment.engine.passes import owners
from tasks.alignment.engine.saved_model import force_align, load_model, save_model
from tasks.alignment.engine.settings import ModelSettings
from tasks.alignment.engine.shards import Resources, make_shards
from tasks.contract import InputError

EULER = 0.5772156649015329


def counted_of(bitext: Bitext, corpora: int = 1) -> Counted:
    """Counting by the bitext's own words, its pairs dealt out to `corpora` corpora."""
    return Counted(bitext, (np.arange(len(bitext)) % corpora).astype(np.int32), corpora)


def run(bitext: Bitext, settings: ModelSettings, folder: Path, corpora: int = 1, threads: int = 1) -> Trained:
    return train(bitext, settings, Resources(folder, threads), counted=counted_of(bitext, corpora))


def table(aligned: Aligned) -> WordPairs:
    """All blocks of expected counts as one."""
    blocks = list(aligned.expected())
    names = ("corpus", "source", "target", "count", "reverse_count")
    return WordPairs(*(np.concatenate([getattr(block, name) for block in blocks]) for name in names))


def test_exp_digamma_at_known_points() -> None:
    assert exp_digamma(1.0) == pytest.approx(math.exp(-EULER), rel=1e-7)
    assert exp_digamma(0.5) == pytest.approx(math.exp(-EULER - 2 * math.log(2)), rel=1e-7)
    assert exp_digamma(10.0) == pytest.approx(math.exp(sum(1 / k for k in range(1, 10)) - EULER), rel=1e-7)
    assert math.log(exp_digamma(0.01)) == pytest.approx(math.log(exp_digamma(1.01)) - 100, abs=1e-6)


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


@pytest.mark.parametrize("tension", [0.1, 4.0, 14.0])
def test_tables_give_the_prior_and_its_normaliser(tension: float) -> None:
    lengths = np.array([1, 4, 9])
    first, rising, falling, rising_sum, falling_sum = prior_tables(lengths, tension).arrays()
    for m in lengths.tolist():
        for n in lengths.tolist():
            for j in range(1, m + 1):
                below = j * n // m
                total = falling[first[m] + j] * rising_sum[first[n] + below]
                total += rising[first[m] + j] * falling_sum[first[n] + below]
                assert total == pytest.approx(sum(w for _, w in weights(j, m, n, tension)), rel=1e-10)


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
            key: exp_digamma(count + settings.alpha) / exp_digamma(rows[key[0]])
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
def test_training_equals_a_slow_implementation(
    small_bitext: Bitext, settings: ModelSettings, reverse: bool, tmp_path: Path
) -> None:
    name = "reverse" if reverse else "forward"
    trained = run(small_bitext, settings, tmp_path)
    figures, counts, joints = slow_em(small_bitext, settings, reverse)
    found = [(i.log_likelihood, i.perplexity, i.tension, i.p_null, i.feature) for i in trained.iterations[name]]
    assert np.array(found) == pytest.approx(np.array(figures), rel=1e-4, abs=1e-6)
    pairs = table(trained)
    number = {(s, t): k for k, (s, t) in enumerate(zip(pairs.source.tolist(), pairs.target.tolist(), strict=True))}
    values = pairs.reverse_count if reverse else pairs.count
    for (given, generated), count in counts.items():
        if given is not None:
            place = number.get((generated, given) if reverse else (given, generated))
            assert (0.0 if place is None else values[place]) == pytest.approx(count, rel=1e-4, abs=LEAST_COUNT)
    for word, count in enumerate(trained.null_counts[int(reverse)]):
        assert count == pytest.approx(counts[None, word], rel=1e-4, abs=1e-5)
    for best, joint in zip(trained.best[name], joints, strict=True):  # words at the same distance tie but for rounding
        assert joint[best + 1] == pytest.approx(max(joint), rel=1e-5)
        assert joint.index(max(joint)) == best + 1 or sorted(joint)[-2] == pytest.approx(max(joint), rel=1e-5)


def test_cells_point_to_their_word_pair(small_bitext: Bitext) -> None:
    for count in (1, 3):
        with Threads(count) as threads:
            index = fill_cells(small_bitext, plan_cells(small_bitext, threads), threads)
        first = first_cells(small_bitext)
        row = np.repeat(np.arange(small_bitext.source_words), np.diff(index.first))
        pairs = set()
        for p in range(len(small_bitext)):
            source = small_bitext.source[small_bitext.source_offsets[p] : small_bitext.source_offsets[p + 1]]
            target = small_bitext.target[small_bitext.target_offsets[p] : small_bitext.target_offsets[p + 1]]
            for i, given in enumerate(source):
                for j, word in enumerate(target):
                    number = index.cell[first[p] + i * len(target) + j]
                    assert (row[number], index.target[number]) == (given, word)
                    pairs.add((given, word))
        assert len(index.target) == len(pairs)


PLUS = ModelSettings(plus=True)


@pytest.mark.parametrize("settings", [ModelSettings(), ModelSettings(alpha=0.0), PLUS])
@pytest.mark.parametrize("corpora", [1, 2])
def test_threads_and_memory_change_no_bit(
    small_bitext: Bitext, settings: ModelSettings, corpora: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards_module, "PROGRAM_BYTES", 0)
    monkeypatch.setattr(shards_module, "LEAST_BYTES", 0)
    results, shard_counts = [], []
    for threads, memory in ((1, 2**30), (3, 2**30), (1, 2_000), (2, 400)):
        resources = Resources(tmp_path / f"{threads}-{memory}", threads, memory)
        trained = train(small_bitext, settings, resources, counted=counted_of(small_bitext, corpora))
        pairs = table(trained)
        arrays = [*trained.best.values(), *trained.null_counts, pairs.corpus, pairs.source, pairs.target, pairs.count]
        results.append((trained.iterations, [array.tobytes() for array in [*arrays, pairs.reverse_count]]))
        shard_counts.append(len(trained.shards.shards))
    assert shard_counts[:2] == [1, 1]
    assert 1 < shard_counts[2] < shard_counts[3]
    assert all(result == results[0] for result in results)


@pytest.mark.parametrize("settings", [ModelSettings(), PLUS])
@pytest.mark.parametrize("memory", [2**30, 1_000])
def test_a_run_cut_off_goes_on_after_its_last_iteration(
    small_bitext: Bitext, settings: ModelSettings, memory: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards_module, "PROGRAM_BYTES", 0)
    monkeypatch.setattr(shards_module, "LEAST_BYTES", 0)
    monkeypatch.setattr("tasks.alignment.engine.em.CHECKPOINT_SECONDS", 0.0)
    whole = train(small_bitext, settings, Resources(tmp_path / "whole", 1, memory), counted=counted_of(small_bitext))

    class Killed(Exception):
        pass

    def kill(done: float, total: float, message: str) -> None:
        if done > 3:
            raise Killed

    seen: list[float] = []
    resources = Resources(tmp_path / "cut", 1, memory)
    with pytest.raises(Killed):
        train(small_bitext, settings, resources, counted=counted_of(small_bitext), report=kill)
    rest = train(
        small_bitext,
        settings,
        resources,
        counted=counted_of(small_bitext),
        report=lambda done, total, message: seen.append(done) if done else None,
    )
    assert min(seen) > 3
    assert rest.iterations == whole.iterations
    assert all((rest.best[name] == whole.best[name]).all() for name in whole.best)
    assert (table(rest).count == table(whole).count).all()
    # Another text or other settings never take up this checkpoint.
    other = train(small_bitext, replace(settings, iterations=4), resources)
    assert len(other.iterations["forward"]) == 4


@pytest.mark.parametrize("settings", [ModelSettings(alpha=0.0), PLUS])
@pytest.mark.parametrize("memory", [2**30, 1_000])
def test_a_saved_model_aligns_its_own_text_as_in_training(
    small_bitext: Bitext, settings: ModelSettings, memory: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards_module, "PROGRAM_BYTES", 0)
    monkeypatch.setattr(shards_module, "LEAST_BYTES", 0)
    trained = train(small_bitext, settings, Resources(tmp_path / "train", 1, memory), counted=counted_of(small_bitext))
    words = tuple(
        pa.array([f"{side}{k}" for k in range(size)])
        for side, size in (("s", small_bitext.source_words), ("t", small_bitext.target_words))
    )
    save_model(trained, settings, words, tmp_path / "model")
    model = load_model(tmp_path / "model")
    assert model.source_words == words[0]
    assert model.settings == settings
    again = force_align(model, small_bitext, Resources(tmp_path / "force", 1, memory), counted=counted_of(small_bitext))
    for name, best in trained.best.items():
        assert (again.best[name] == best).all()
        assert again.iterations[name][0].log_likelihood == pytest.approx(trained.iterations[name][-1].log_likelihood)
    assert table(again).count == pytest.approx(table(trained).count)


def test_force_align_takes_unknown_words_and_refuses_a_direction_not_trained(
    small_bitext: Bitext, bitext_of: Callable[..., Bitext], tmp_path: Path
) -> None:
    trained = train(small_bitext, ModelSettings(), Resources(tmp_path / "w"), ("forward",))
    words = tuple(pa.array([str(k) for k in range(n)]) for n in (small_bitext.source_words, small_bitext.target_words))
    save_model(trained, ModelSettings(), words, tmp_path / "model")
    model = load_model(tmp_path / "model")
    new = bitext_of([([0, small_bitext.source_words], [0, small_bitext.target_words + 3])])
    forced = force_align(model, new, Resources(tmp_path / "f"), ("forward",))
    assert len(forced.best["forward"]) == 2
    assert np.isfinite(forced.iterations["forward"][0].log_likelihood)
    with pytest.raises(InputError, match="trained forward only, not reverse"):
        force_align(model, new, Resources(tmp_path / "f"), ("forward", "reverse"))
    with pytest.raises(InputError, match="holds no alignment model"):
        load_model(tmp_path / "nothing")


@pytest.mark.parametrize("settings", [*SETTINGS, ModelSettings(alpha=1e-6, iterations=8, tension=500.0), PLUS])
def test_degenerate_corpora_give_finite_figures(
    bitext_of: Callable[..., Bitext], settings: ModelSettings, tmp_path: Path
) -> None:
    corpora = [
        [([0], [0])],
        [([0, 1, 2], [2, 1, 0, 3])] * 1000,
        [([0] * 50, [0])],
        [([0], [0] * 300), ([0] * 300, [0])],
        [(list(range(200)), list(range(200)))],
        [(list(range(5000)), [0, 1, 2]), ([0], [0])],
    ]
    for number, pairs in enumerate(corpora):
        bitext = bitext_of(pairs)
        trained = run(bitext, settings, tmp_path / str(number))
        for figures in (*trained.iterations["forward"], *trained.iterations["reverse"]):
            assert np.isfinite([figures.log_likelihood, figures.perplexity, figures.tension, figures.p_null]).all()
        found = table(trained)
        assert np.isfinite(found.count).all()
        assert found.count.sum() + trained.null_counts[0].sum() <= len(bitext.target) * (1 + 1e-6)


def test_posteriors_add_up_to_the_words(small_bitext: Bitext, tmp_path: Path) -> None:
    trained = run(small_bitext, ModelSettings(), tmp_path)
    total = table(trained).count.sum() + trained.null_counts[0].sum()
    assert total == pytest.approx(len(small_bitext.target), rel=0.01)  # but for counts below LEAST_COUNT


def test_counts_by_another_vocabulary_and_by_corpus_add_up_to_the_same(
    bitext_of: Callable[..., Bitext], tmp_path: Path
) -> None:
    cased = bitext_of(
        [([0, 1], [0, 2]), ([2, 1], [1, 2]), ([2], [0])]
    )  # words 0 and 2 of the source are one in lower case
    classes = np.array([0, 1, 0], np.int32), np.array([0, 0, 1], np.int32)
    lower = replace(
        cased, source=classes[0][cased.source], target=classes[1][cased.target], source_words=2, target_words=2
    )
    plain = table(run(lower, ModelSettings(), tmp_path / "plain"))
    wanted = dict(zip(zip(plain.source.tolist(), plain.target.tolist(), strict=True), plain.count, strict=True))
    for corpora in (1, 2):
        counted = Counted(cased, (np.arange(3) % corpora).astype(np.int32), corpora)
        found = table(train(lower, ModelSettings(), Resources(tmp_path / str(corpora)), counted=counted))
        sums: dict = defaultdict(float)
        for source, target, count in zip(found.source, found.target, found.count, strict=True):
            sums[int(classes[0][source]), int(classes[1][target])] += count
        assert sums == pytest.approx(wanted, abs=2 * LEAST_COUNT)
        assert set(found.corpus.tolist()) == set(range(corpora))


def test_shares_of_work_cover_everything_once() -> None:
    weights_ = np.array([5, 0, 0, 7, 1, 1, 1, 30, 2])
    for parts in (1, 2, 4, 20):
        cuts = split(weights_, parts)
        assert cuts[0] == 0
        assert cuts[-1] == len(weights_)
        assert (np.diff(cuts) >= 0).all()
    owner = owners(np.arange(5000, dtype=np.int64), 3)
    loads = np.bincount(owner, np.arange(5000), minlength=3)
    assert loads.max() / loads.min() < 1.05


def slow_hmm(
    emission: np.ndarray, null: np.ndarray, weight: np.ndarray, p_null: float
) -> tuple[np.ndarray, np.ndarray]:
    """Posteriors of a hidden Markov model with a NULL twin of every position, with explicit matrices in float64."""
    steps, states = emission.shape

    def jump(start: int, end: int) -> float:
        d = end - start
        return weight[d + REACH] if abs(d) <= REACH else weight[SPAN]

    begin = np.array([jump(-1, i) for i in range(states)])
    change = np.array([[jump(a, i) for i in range(states)] for a in range(states)])
    change *= (1 - p_null) / change.sum(axis=1, keepdims=True)
    # Hidden states 0 to N - 1 are positions, N to 2N - 1 their NULL twins.
    both = np.block([[change, p_null * np.eye(states)]] * 2)
    first = np.concatenate([(1 - p_null) * begin / begin.sum(), np.full(states, p_null / states)])
    seen = np.concatenate([emission, np.repeat(null[:, None], states, axis=1)], axis=1)
    ahead, behind = [first * seen[0]], [np.ones(2 * states)]
    for j in range(1, steps):
        ahead.append((ahead[-1] @ both) * seen[j])
        behind.append(both @ (seen[steps - j] * behind[-1]))
    posterior = np.array(ahead) * np.array(behind[::-1])
    posterior /= posterior.sum(axis=1, keepdims=True)
    return posterior[:, :states], posterior[:, states:].sum(axis=1)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (2, 4), (4, 3), (5, 2), (20, 2), (40, 37)])
def test_hmm_posteriors_equal_a_slow_implementation(n: int, m: int, bitext_of: Callable[..., Bitext]) -> None:
    """Also with more positions than REACH, where jumps share a weight."""
    rng = np.random.default_rng(n * 10 + m)
    bitext = bitext_of([(list(range(n)), list(range(m)))])
    jumps = rng.integers(1, 1000, no_jumps().shape)
    jumps[:, 1] = 2000
    weights_ = jump_weights(jumps)
    translation = rng.random((n * m, 2)).astype(np.float32)
    null_target, null_source = rng.random(m).astype(np.float32), rng.random(n).astype(np.float32)
    joints = np.zeros(n * m, np.float32), np.zeros(n * m, np.float32)
    inverses = np.zeros(m, np.float32), np.zeros(n, np.float32)
    nulls = np.zeros(m, np.float32), np.zeros(n, np.float32)
    best = np.zeros(m, np.int16), np.zeros(n, np.int16)
    sides = (bitext.source, bitext.source_offsets, bitext.target, bitext.target_offsets)
    cell = np.arange(n * m, dtype=np.uint32)
    hmm_expectation(
        (0, 1),
        sides,
        (cell, first_cells(bitext), 0),
        (translation, null_target, null_source),
        weights_,
        joints,
        inverses,
        nulls,
        best,
        no_jumps(),
    )
    forward, forward_null = slow_hmm(translation[:, 0].reshape(n, m).T, null_target, weights_[0], 0.2)
    reverse, reverse_null = slow_hmm(translation[:, 1].reshape(n, m), null_source, weights_[1], 0.2)
    assert joints[0].reshape(n, m) == pytest.approx(forward.T * reverse, rel=1e-4, abs=1e-7)
    assert nulls[0] == pytest.approx(forward_null, rel=1e-4, abs=1e-6)
    assert nulls[1] == pytest.approx(reverse_null, rel=1e-4, abs=1e-6)
    agreed = forward.T * reverse
    wanted = np.where(agreed.max(axis=0) > 0.2, agreed.argmax(axis=0), -1)
    assert best[0].tolist() == wanted.tolist()


def test_plus_links_what_both_directions_agree_on(bitext_of: Callable[..., Bitext], tmp_path: Path) -> None:
    """Word k is always translated by word k; sentences of two words in both orders."""
    rng = np.random.default_rng(5)
    pairs = []
    for _ in range(400):
        words = rng.choice(20, 4, replace=False).tolist()
        pairs.append((words, words[:2][::-1] + words[2:]))
    trained = train(bitext_of(pairs), PLUS, Resources(tmp_path))
    right = np.tile([1, 0, 2, 3], len(pairs))
    assert (trained.best["forward"] == right).mean() > 0.99
    assert (trained.best["reverse"] == right).mean() > 0.99


def test_plus_in_one_direction_is_that_direction_of_both(small_bitext: Bitext, tmp_path: Path) -> None:
    both = train(small_bitext, PLUS, Resources(tmp_path / "both"))
    for name in ("forward", "reverse"):
        one = train(small_bitext, PLUS, Resources(tmp_path / name), (name,))
        assert list(one.best) == [name]
        assert (one.best[name] == both.best[name]).all()
        assert one.iterations[name] == both.iterations[name]


def test_a_text_that_fits_keeps_its_cells_in_a_file_where_those_do_not(
    small_bitext: Bitext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards_module, "PROGRAM_BYTES", 0)
    monkeypatch.setattr(shards_module, "LEAST_BYTES", 0)
    cells = 4 * int(first_cells(small_bitext)[-1])
    monkeypatch.setattr(shards_module, "RESIDENT_SHARE", 1)
    with Threads(1) as threads:
        for room, spilled in ((100 * cells, False), (4 * cells, False), (100 * cells, True)):
            monkeypatch.setattr(shards_module, "RESIDENT_SHARE", 200 if spilled else 1)
            folder = tmp_path / f"{room}-{spilled}"
            made = make_shards(small_bitext, Resources(folder, 1, room), threads)
            assert made.resident
            assert (folder / "shards" / "cells.int32").exists() == spilled


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
