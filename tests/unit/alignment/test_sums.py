from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.alignment.sums import KeySums, merge_runs


def counted(sums: KeySums) -> dict[int, int]:
    blocks = list(sums.result())
    keys = [key for block in blocks for key in block[0].tolist()]
    assert keys == sorted(set(keys))
    return dict(zip(keys, [value for block in blocks for value in block[1][:, 0].tolist()], strict=True))


@pytest.mark.parametrize("memory", [1, 2**30])
@pytest.mark.parametrize("block", [1, 1000, 30_000])
def test_counts_are_those_of_a_counter(memory: int, block: int, tmp_path: Path) -> None:
    keys = np.random.default_rng(3).integers(0, 9000, 30_000) * 2**40
    sums = KeySums(1, np.int64, tmp_path, memory)
    for start in range(0, len(keys), block):
        sums.count(keys[start : start + block])
    assert counted(sums) == Counter(keys.tolist())
    assert bool(list(tmp_path.iterdir())) == (memory == 1)


def test_nothing_was_added() -> None:
    assert list(KeySums(2).result()) == []


def test_largest_and_smallest_key() -> None:
    sums = KeySums(1, np.int64)
    sums.count(np.array([2**63 - 2, 0, 0]))
    assert counted(sums) == {0: 2, 2**63 - 2: 1}


def test_sums_are_added_in_the_order_of_the_rows() -> None:
    values = [1.0, 1e16, -1e16, 3.0]
    sums = KeySums(1)
    sums.add(np.zeros(4, dtype=np.int64), np.array(values)[:, None])
    assert next(sums.result())[1].tolist() == [[((1.0 + 1e16) - 1e16) + 3.0]]


runs_strategy = st.lists(st.dictionaries(st.integers(0, 30), st.integers(1, 9), max_size=12), max_size=4)


@given(runs=runs_strategy, size=st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_merged_runs_are_the_sum(runs: list[dict[int, int]], size: int) -> None:
    def blocks(run: dict[int, int]) -> list[tuple[np.ndarray, np.ndarray]]:
        keys = sorted(run)
        parts = [keys[start : start + size] for start in range(0, len(keys), size)]
        return [(np.array(part), np.array([[run[key], 2 * run[key]] for key in part])) for part in parts]

    expected: Counter[int] = Counter()
    for run in runs:
        expected.update(run)
    found = list(merge_runs(map(blocks, runs)))
    rows = [(key, *values) for block in found for key, values in zip(block[0].tolist(), block[1].tolist(), strict=True)]
    assert rows == [(key, expected[key], 2 * expected[key]) for key in sorted(expected)]
