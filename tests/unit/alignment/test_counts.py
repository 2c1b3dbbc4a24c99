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
from tasks.alignment import sums as sums_module
from tasks.alignment.counts import TokenCounts, UnitTokens
from tasks.contract import InputError, StageContext, load_stage

Units = list[list[int]]


def unit_tokens(units: Units) -> UnitTokens:
    ids = np.array([number for unit in units for number in unit], dtype=np.int32)
    return UnitTokens(ids, np.cumsum([0, *map(len, units)]).astype(np.int64))


def token_counts(
    source: Units, target: Units, pairs: list[tuple[int, int, float]]
) -> dict[tuple[int, int], list[float]]:
    counts = TokenCounts(unit_tokens(source), unit_tokens(target))
    for some in (pairs[:2], pairs[2:]):
        s, t, c = zip(*some, strict=True) if some else ((), (), ())
        counts.add(np.array(s, dtype=np.int32), np.array(t, dtype=np.int32), np.array(c, dtype=np.float64))
    return {(t, s): [a, b] for t, s, a, b in zip(*(x.tolist() for x in counts.result()), strict=True)}


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


def test_small_steps_and_compaction_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(1)
    source = [random.integers(0, 9, random.integers(1, 6)).tolist() for _ in range(30)]
    target = [random.integers(0, 9, random.integers(1, 6)).tolist() for _ in range(30)]
    pairs = [
        (int(s), int(t), float(c))
        for s, t, c in zip(*random.integers(0, 30, (2, 200)), random.random(200), strict=True)
    ]
    whole = token_counts(source, target, pairs)
    monkeypatch.setattr(counts_module, "EXPANDED_ROWS", 7)
    monkeypatch.setattr(sums_module, "COMPACT_ROWS", 11)
    parts = token_counts(source, target, pairs)
    assert list(parts) == list(whole)
    assert np.array(list(parts.values())) == pytest.approx(np.array(list(whole.values())))


def write_alignment(folder: Path, pairs: list[tuple[int, int, float]]) -> None:
    for name, units in (("source_units", [[5], [6, 7]]), ("target_units", [[8, 9]])):
        pq.write_table(pa.table({"token_ids": pa.array(units, pa.list_(pa.int32()))}), folder / f"{name}.parquet")
    s, t, c = zip(*pairs, strict=True)
    table = pa.table(
        {"source_unit": pa.array(s, pa.int32()), "target_unit": pa.array(t, pa.int32()), "count": pa.array(c)}
    )
    pq.write_table(table, folder / "word_pairs.parquet")


def test_stage_drops_rare_pairs_and_takes_the_mean(tmp_path: Path) -> None:
    write_alignment(tmp_path, [(0, 0, 9.9), (1, 0, 10.0)])
    out = tmp_path / "out"
    out.mkdir()
    context = StageContext(config=CountsConfig(min_count=10.0), inputs={"alignment": tmp_path}, out=out, work=tmp_path)
    result = load_stage("counts").run(context)
    rows = pq.read_table(out / "token_pairs.parquet").to_pylist()
    assert [(row["target_id"], row["source_id"], row["all_to_all"], row["in_order"], row["count"]) for row in rows] == [
        (8, 6, 5.0, 10.0, 7.5),
        (8, 7, 5.0, 0.0, 2.5),
        (9, 6, 5.0, 0.0, 2.5),
        (9, 7, 5.0, 10.0, 7.5),
    ]
    assert pq.read_schema(out / "token_pairs.parquet").field("source_id").type == pa.int32()
    assert (result.summary["word_pairs"], result.summary["word_pairs_used"]) == (2, 1)


def test_stage_says_when_no_pair_is_frequent_enough(tmp_path: Path) -> None:
    write_alignment(tmp_path, [(0, 0, 3.25)])
    context = StageContext(
        config=CountsConfig(min_count=10.0), inputs={"alignment": tmp_path}, out=tmp_path, work=tmp_path
    )
    with pytest.raises(InputError, match=r"none of 1 word pairs .*min_count = 10 \(the largest is 3.25\)"):
        load_stage("counts").run(context)
