from collections import defaultdict
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs.schema import CountsConfig
from tasks.alignment import counts as counts_module
from tasks.alignment.aligner import WordPairs
from tasks.alignment.counts import TokenCounts, UnitTokens
from tasks.alignment.word_pairs import write_corpora, write_word_pairs
from tasks.contract import InputError, StageContext, StageResult, load_stage

Units = list[list[int]]


def unit_tokens(units: Units) -> UnitTokens:
    ids = np.array([number for unit in units for number in unit], dtype=np.int32)
    return UnitTokens(ids, np.cumsum([0, *map(len, units)]).astype(np.int64))


def token_counts(
    source: Units, target: Units, pairs: list[tuple[int, int, float]], block: int = 2, memory: int = 2**30
) -> dict[tuple[int, int], list[float]]:
    counts = TokenCounts(unit_tokens(source), unit_tokens(target), memory=memory)
    for start in range(0, len(pairs), block):
        s, t, c = zip(*pairs[start : start + block], strict=True)
        counts.add(np.array(s, dtype=np.int32), np.array(t, dtype=np.int32), np.array(c, dtype=np.float64))
    return {
        (t, s): values
        for target_ids, source_ids, sums in counts.result()
        for t, s, values in zip(target_ids.tolist(), source_ids.tolist(), sums.tolist(), strict=True)
    }


def slow_counts(
    source: Units, target: Units, pairs: list[tuple[int, int, float]]
) -> dict[tuple[int, int], list[Fraction]]:
    result: dict = defaultdict(lambda: [Fraction(0), Fraction(0)])
    for s, t, count in pairs:
        n, m, c = len(source[s]), len(target[t]), Fraction(count)
        for j, target_id in enumerate(target[t]):
            low, high = Fraction(j * n, m), Fraction((j + 1) * n, m)
            for i, source_id in enumerate(source[s]):
                result[target_id, source_id][0] += c / n
                overlap = max(Fraction(0), min(high, Fraction(i + 1)) - max(low, Fraction(i)))
                result[target_id, source_id][1] += c * overlap / (high - low)
    return result


def test_two_target_tokens_and_three_source_tokens_by_hand() -> None:
    found = token_counts([[10, 11, 12]], [[20, 21]], [(0, 0, 6.0)])
    third, one, two = 2.0, 2.0, 4.0
    assert found[20, 10] == pytest.approx([third, two])  # 2/3 of its 6
    assert found[20, 11] == pytest.approx([third, one])  # 1/3
    assert found[20, 12] == pytest.approx([third, 0.0])
    assert found[21, 11] == pytest.approx([third, one])
    assert found[21, 12] == pytest.approx([third, two])


def test_published_example() -> None:
    """13,721 fifteen, 12,293 15 and 544 Fif##teen give 0.52, 0.46, 0.01 and 0.01."""
    found = token_counts([[0], [1], [2, 3]], [[9]], [(0, 0, 13721), (1, 0, 12293), (2, 0, 544)])
    weights = np.array([sum(found[9, source]) / 2 for source in range(4)])
    assert (weights / weights.sum()).round(2).tolist() == [0.52, 0.46, 0.01, 0.01]


units_strategy = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=5), min_size=1, max_size=4)


@given(data=st.data(), source=units_strategy, target=units_strategy)
@settings(max_examples=80, deadline=None)
def test_counts_equal_exact_fractions(data: st.DataObject, source: Units, target: Units) -> None:
    pairs = data.draw(
        st.lists(
            st.tuples(
                st.integers(0, len(source) - 1), st.integers(0, len(target) - 1), st.floats(0.01, 1e6, allow_nan=False)
            ),
            min_size=1,
            max_size=8,
        )
    )
    found, expected = token_counts(source, target, pairs), slow_counts(source, target, pairs)
    assert set(found) == set(expected)
    for key, values in expected.items():
        assert found[key] == pytest.approx([float(value) for value in values], rel=1e-9, abs=1e-9)
    assert list(found) == sorted(found)


@given(data=st.data(), source=units_strategy, target=units_strategy)
@settings(max_examples=40, deadline=None)
def test_every_target_token_receives_the_count_under_both_rules(
    data: st.DataObject, source: Units, target: Units
) -> None:
    s, t = data.draw(st.integers(0, len(source) - 1)), data.draw(st.integers(0, len(target) - 1))
    received: dict[int, np.ndarray] = defaultdict(lambda: np.zeros(2))
    for (target_id, _), values in token_counts(source, target, [(s, t, 6.5)]).items():
        received[target_id] += values
    assert set(received) == set(target[t])
    for target_id, values in received.items():
        assert values == pytest.approx(6.5 * target[t].count(target_id))


@pytest.fixture(scope="module")
def many() -> tuple[Units, Units, list[tuple[int, int, float]]]:
    random = np.random.default_rng(1)
    source, target = ([random.integers(0, 200, random.integers(1, 6)).tolist() for _ in range(900)] for _ in "st")
    numbers = random.integers(0, 900, (2, 4000)).tolist()
    return source, target, list(zip(*numbers, random.random(4000).tolist(), strict=True))


@pytest.mark.parametrize(("block", "rows"), [(4000, 2**15), (17, 2**15), (1000, 3), (1, 7)])
def test_blocks_change_no_bit(
    many: tuple[Units, Units, list[tuple[int, int, float]]], block: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = token_counts(*many, block=600)
    monkeypatch.setattr(counts_module, "EXPANDED_ROWS", rows)
    assert token_counts(*many, block=block) == whole


def test_counts_beyond_the_memory_are_merged_from_disk(many: tuple[Units, Units, list[tuple[int, int, float]]]) -> None:
    whole = token_counts(*many)
    assert len(whole) > 10_000  # more than a table of 4096 slots holds
    merged = token_counts(*many, memory=1)
    assert list(merged) == list(whole) == sorted(whole)
    assert np.array(list(merged.values())) == pytest.approx(np.array(list(whole.values())), rel=1e-12)
    assert merged == token_counts(*many, memory=1, block=33)


def test_a_unit_that_is_not_listed() -> None:
    with pytest.raises(ValueError, match=r"a target unit outside the 1 known ones: 0 to 3"):
        token_counts([[0], [1]], [[0]], [(0, 0, 1.0), (1, 3, 1.0)])


Row = tuple[int, int, int, float, float]  # corpus, source, target, count, reverse count


def write_alignment(folder: Path, rows: list[Row], corpora: tuple[str, ...] = ("news",)) -> None:
    for name, units in (("source_units", [[5], [6, 7]]), ("target_units", [[8, 9]])):
        pq.write_table(pa.table({"token_ids": pa.array(units, pa.list_(pa.int32()))}), folder / f"{name}.parquet")
    integers = [np.array(column, dtype=np.int32) for column in list(zip(*rows, strict=True))[:3]]
    reals = [np.array(column) for column in list(zip(*rows, strict=True))[3:]]
    write_word_pairs([WordPairs(*integers, *reals)], folder / "word_pairs.parquet")
    write_corpora(corpora, [100] * len(corpora), folder / "corpora.parquet")


def run_stage(folder: Path, **config: object) -> tuple[StageResult, list[dict]]:
    out = folder / "out"
    out.mkdir(exist_ok=True)
    context = StageContext(config=CountsConfig(**config), inputs={"alignment": folder}, out=out, work=folder)
    return load_stage("counts").run(context), pq.read_table(out / "token_pairs.parquet").to_pylist()


def test_stage_drops_rare_pairs_and_takes_the_mean(tmp_path: Path) -> None:
    write_alignment(tmp_path, [(0, 0, 0, 9.9, 50.0), (0, 1, 0, 10.0, 10.0)])
    result, rows = run_stage(tmp_path, min_count=10.0)
    assert [(row["target_id"], row["source_id"], row["all_to_all"], row["in_order"], row["count"]) for row in rows] == [
        (8, 6, 5.0, 10.0, 7.5),
        (8, 7, 5.0, 0.0, 2.5),
        (9, 6, 5.0, 0.0, 2.5),
        (9, 7, 5.0, 10.0, 7.5),
    ]
    assert pq.read_schema(tmp_path / "out" / "token_pairs.parquet").field("source_id").type == pa.int32()
    assert result.summary == {
        "word_pairs": 2,
        "word_pairs_used": 1,
        "word_pair_count": 10.0,
        "token_pairs": 4,
        "target_tokens": 2,
        "source_tokens": 2,
    }


def counted(rows: list[dict]) -> dict[tuple[int, int], float]:
    return {(row["target_id"], row["source_id"]): row["count"] for row in rows}


@pytest.mark.parametrize(("direction", "count"), [("forward", 4.0), ("reverse", 20.0), ("mean", 12.0)])
def test_direction(tmp_path: Path, direction: str, count: float) -> None:
    write_alignment(tmp_path, [(0, 0, 0, 4.0, 20.0)])
    assert counted(run_stage(tmp_path, min_count=1.0, direction=direction)[1]) == {(8, 5): count, (9, 5): count}


TWO_CORPORA: list[Row] = [(0, 0, 0, 4.0, 4.0), (0, 1, 0, 3.0, 3.0), (1, 0, 0, 10.0, 10.0)]


def test_min_count_is_that_of_the_weighted_sum_over_the_corpora(tmp_path: Path) -> None:
    write_alignment(tmp_path, TWO_CORPORA, ("news", "bible"))
    assert counted(run_stage(tmp_path, min_count=14.0)[1]) == {(8, 5): 14.0, (9, 5): 14.0}
    weighted, rows = run_stage(tmp_path, min_count=6.0, corpus_weights={"news": 3.0, "bible": 0.5})
    assert counted(rows) == {(8, 5): 17.0, (9, 5): 17.0, (8, 6): 6.75, (8, 7): 2.25, (9, 6): 2.25, (9, 7): 6.75}
    assert weighted.summary["word_pair_count"] == 26.0
    alone = run_stage(tmp_path, min_count=1.0, corpus_weights={"news": 0})[0]
    assert (alone.summary["word_pairs"], alone.summary["word_pair_count"]) == (1, 10.0)


def test_stage_says_when_no_pair_is_frequent_enough(tmp_path: Path) -> None:
    write_alignment(tmp_path, [(0, 0, 0, 3.25, 30.0)])
    with pytest.raises(InputError, match=r"none of 1 word pairs .*min_count = 10 \(the largest is 3.25\)"):
        run_stage(tmp_path, min_count=10.0)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (
            {"bibel": 2.0},
            r"corpus_weights names 'bibel', which is no source of the parallel text; known are: news, bible",
        ),
        ({"bible": -1.0}, r"corpus_weights.bible is -1: give a finite number from 0"),
        ({"news": 0.0, "bible": 0.0}, r"0 for every parallel corpus \(news, bible\)"),
    ],
)
def test_weights_that_cannot_be_used(tmp_path: Path, weights: dict[str, float], message: str) -> None:
    write_alignment(tmp_path, TWO_CORPORA, ("news", "bible"))
    with pytest.raises(InputError, match=message):
        run_stage(tmp_path, corpus_weights=weights)
