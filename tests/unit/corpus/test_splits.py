"""Deduplication, splits and sampling: what holds for all inputs."""

import gzip
from collections import Counter
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks.corpus import lines, read_parquet, row_groups, spill
from tasks.corpus.deduplicate import REPEATS_KEPT, compact
from tasks.corpus.hashes import pair_hashes, split_by_hash, text_hashes

WORDS = [f"frazo numero {i}" for i in range(4000)]
SLOW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def digests(outcome) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(outcome.out.iterdir())}


@pytest.fixture
def tiny_limits(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets the spill's limit in bytes, so that a few texts already go through several levels of partitions."""

    def set_limit(limit: int) -> None:
        monkeypatch.setattr("tasks.corpus.build.spill_limit", lambda _mib: limit)

    return set_limit


# ---------------------------------------------------------------------------------------------------------------- hash


def test_hash_is_xxh3_128_of_the_utf8() -> None:
    high, low = text_hashes(pa.array(["ĉevalo"]), seed=7)[0].tolist()
    assert (high << 64) + low == xxhash.xxh3_128_intdigest("ĉevalo".encode(), seed=7)


def test_pairs_hash_both_sides() -> None:
    one = pair_hashes([pa.array(["a b", "a"]), pa.array(["c", "b c"])], 0)
    assert one[0].tolist() != one[1].tolist()


def test_shares_are_nested() -> None:
    low = text_hashes(pa.array(WORDS), 0)[:, 1]
    small, large = split_by_hash(low, 0.1, 0.1), split_by_hash(low, 0.3, 0.2)
    assert ((small == 0) | (small == large)).all()
    assert 0.25 < (large == 1).mean() < 0.35
    assert 0.16 < (large == 2).mean() < 0.24


# -------------------------------------------------------------------------------------------------------------- splits


@SLOW
@given(
    sources=st.lists(
        st.tuples(
            st.lists(st.integers(0, 25), min_size=1, max_size=25),
            st.sampled_from([None, "train", "test", "validation"]),
        ),
        min_size=1, max_size=3,
    ),
    share=st.sampled_from([0.0, 0.3]),
    sentences=st.sampled_from([None, 1, 4]),
)  # fmt: skip
def test_no_text_is_in_two_splits_and_dedup_is_exact(new_bench, sources, share: float, sentences: int | None) -> None:
    bench = new_bench()
    for i, (numbers, _) in enumerate(sources):
        bench.write(f"{i}.txt", "\n".join(f"t{number}" for number in numbers) + "\n")
    bench.write("always.txt", "always\n")
    configured = [bench.source(f"{i}.txt", name=f"s{i}", split=split) for i, (_, split) in enumerate(sources)]
    outcome = bench.corpus(
        *configured, bench.source("always.txt", name="z", split="train"),
        validation_share=share, test_share=share, budget={"sentences": sentences},
    )  # fmt: skip
    kept = Counter(text for split in ("train", "validation", "test") for text in outcome.texts(split))
    assert set(kept.values()) <= {1}
    distinct = {f"t{number}" for numbers, _ in sources for number in numbers} | {"always"}
    over = outcome.rejected().get("over-budget", 0)
    assert len(kept) == len(distinct) - over
    assert sentences is None or len(outcome.texts()) == min(sentences, len(outcome.texts()) + over)
    read = sum(len(numbers) for numbers, _ in sources) + 1
    assert outcome.result.summary["read"] == read == len(kept) + sum(outcome.rejected().values())
    forced = {f"t{number}" for numbers, split in sources if split == "test" for number in numbers}
    assert forced <= set(outcome.texts("test"))


def test_a_text_forced_into_test_leaves_the_other_splits(bench) -> None:
    bench.write("train.txt", "unu\ndu\ntri\n")
    bench.write("dev.txt", "du\nkvar\nkvin\n")
    bench.write("test.txt", "tri\nkvar\ntri\n")
    outcome = bench.corpus(*(bench.source(f"{s}.txt", name=s, split={"dev": "validation"}.get(s, s))
                             for s in ("train", "dev", "test")))  # fmt: skip
    assert set(outcome.texts("train")) == {"unu"}
    assert set(outcome.texts("validation")) == {"du", "kvin"}
    assert set(outcome.texts("test")) == {"tri", "kvar"}
    assert outcome.rejected() == {"duplicate": 1, "duplicate-of-test": 2, "duplicate-of-validation": 1}
    assert outcome.examples("duplicate-of-validation") == [(2, "du")]


def test_the_first_source_gets_a_text_of_several(bench) -> None:
    bench.write("a.txt", "komuna\n")
    bench.write("b.txt", "komuna\nkomuna \n")
    for names in ("ab", "ba"):
        outcome = bench.corpus(*(bench.source(f"{name}.txt", name=name) for name in names))
        assert outcome.rows("train") == [{"text": "komuna", "corpus": names[0]}]
        assert outcome.rejected() == {"duplicate": 2}


def test_texts_equal_after_cleaning_are_duplicates(bench) -> None:
    outcome = bench.txt("caf\u00e9\ncafe\u0301\n caf\u00e9\u200b \nCaf\u00e9\n")
    assert outcome.all_texts() == {"caf\u00e9", "Caf\u00e9"}
    assert outcome.examples("duplicate") == [(2, "caf\u00e9"), (3, "caf\u00e9")]


def test_a_sentence_held_out_in_the_corpus_is_held_out_in_the_bitext(bench) -> None:
    bench.write("a.txt", "\n".join(WORDS))
    bench.write("a.tsv", "\n".join(["src\ttgt", *(f"{word} en\t{word}" for word in WORDS),
                                    *(f"other {word} en\t{word}" for word in WORDS)]))  # fmt: skip
    shares = {"validation_share": 0.1, "test_share": 0.1, "seed": 3}
    corpus = bench.corpus(bench.source("a.txt"), **shares)
    bitext = bench.bitext(bench.source("a.tsv"), **shares)
    for split in ("train", "validation", "test"):
        assert len(corpus.texts(split)) > 300
        assert set(corpus.texts(split)) == set(bitext.texts(split, "target"))
        assert len(bitext.pairs(split)) == 2 * len(corpus.texts(split))


def test_pairs_are_deduplicated_as_pairs_and_kept_apart_by_target(bench) -> None:
    bench.write("a.tsv", "src\ttgt\nyes\tjes\nyeah\tjes\nyes\tjes\nyes\tho jes\nno\tne\n")
    bench.write("b.tsv", "src\ttgt\nnope\tne\n")
    outcome = bench.bitext(bench.source("a.tsv"), bench.source("b.tsv", name="b", split="test"))
    assert sorted(outcome.pairs()) == [("yeah", "jes"), ("yes", "ho jes"), ("yes", "jes")]
    assert outcome.pairs("test") == [("nope", "ne")]
    assert outcome.rejected() == {"duplicate": 1, "duplicate-of-test": 1}


# -------------------------------------------------------------------------------------------------------------- budget


def test_the_sample_does_not_depend_on_the_order_of_the_input(bench) -> None:
    forward = bench.txt("\n".join(WORDS), test_share=0.1, budget={"sentences": 500})
    backward = bench.txt("\n".join(reversed(WORDS)), test_share=0.1, budget={"sentences": 500})
    assert digests(forward)["train.parquet"] == digests(backward)["train.parquet"]
    assert digests(forward)["test.parquet"] == digests(backward)["test.parquet"]
    assert digests(forward)["rejections.parquet"] == digests(backward)["rejections.parquet"]


def test_a_smaller_sample_is_the_start_of_a_larger_one(bench) -> None:
    everything = bench.txt("\n".join(WORDS)).texts()
    assert bench.txt("\n".join(WORDS), budget={"sentences": 100}).texts() == everything[:100]
    assert sorted(everything) == sorted(WORDS)
    assert everything[:100] != WORDS[:100]
    assert bench.txt("\n".join(WORDS), seed=1).texts() != everything


@SLOW
@given(budget=st.integers(1, 4000), sentences=st.sampled_from([None, 3, 1000]))
def test_the_budget_of_bytes_is_filled_and_not_passed(new_bench, budget: int, sentences: int | None) -> None:
    bench = new_bench()
    texts = ["ĝi" * (i % 13 + 1) + str(i) for i in range(100)]
    everything = [text.encode() for text in bench.txt("\n".join(texts)).texts()]
    expected: list[bytes] = []
    for text in everything[:sentences]:
        if sum(map(len, expected)) + len(text) > budget:
            break
        expected.append(text)
    if not expected:
        return
    outcome = bench.txt("\n".join(texts), budget={"bytes": budget, "sentences": sentences})
    assert [text.encode() for text in outcome.texts()] == expected
    assert outcome.result.summary["kept_bytes"]["train"] == sum(map(len, expected)) <= budget
    assert outcome.rejected().get("over-budget", 0) == len(everything) - len(expected)


# ------------------------------------------------------------------------------------------- memory and determinism


def repetitive_bench(bench) -> list:
    words = [word for i, word in enumerate(WORDS) for _ in range(1 + 400 * (i % 997 == 0))]
    bench.write("a.txt", "\n".join(words + WORDS[:50]))
    bench.write("b.txt.gz", gzip.compress("\n".join(["\n".join(WORDS[3000:3200]), *["frazo numero 0"] * 300]).encode()))
    bench.write("c.txt", "\n".join(WORDS[2000:2100] * 2))
    packed = bench.source("b.txt.gz", name="b", format="txt")
    return [bench.source("a.txt"), packed, bench.source("c.txt", name="c", split="test")]


@pytest.mark.parametrize("budget", [None, 1500])
def test_the_answer_does_not_depend_on_the_working_memory(bench, tiny_limits, monkeypatch, budget) -> None:
    sources = repetitive_bench(bench)
    config = {"validation_share": 0.05, "test_share": 0.05, "budget": {"sentences": budget}}
    expected = digests(bench.corpus(*sources, **config))
    for limit, block in ((100_000, 1 << 22), (8_000, 6000)):
        tiny_limits(limit)
        monkeypatch.setattr(lines, "BLOCK_BYTES", block)
        assert digests(bench.corpus(*sources, **config)) == expected


def test_pairs_do_not_depend_on_the_working_memory(bench, tiny_limits, monkeypatch) -> None:
    rows = [f"s {i % 700} {j}\tt {i % 31 if i % 3 else i}" for i in range(2000) for j in range(i % 4)]
    bench.write("a.tsv", "\n".join(["src\ttgt", *rows]))
    expected = bench.bitext(bench.source("a.tsv"), validation_share=0.1)
    tiny_limits(6_000)
    monkeypatch.setattr(lines, "BLOCK_BYTES", 10_000)
    assert digests(bench.bitext(bench.source("a.tsv"), validation_share=0.1)) == digests(expected)


def test_spilling_leaves_nothing_behind_and_forgets_a_broken_run(bench, tiny_limits, tmp_path) -> None:
    tiny_limits(50_000)
    expected = digests(bench.txt("\n".join(WORDS)))
    assert list((tmp_path / "work1").iterdir()) == []
    (tmp_path / "work9").mkdir()
    left = tmp_path / "work9" / "spill"
    left.mkdir()
    (left / "00.arrow").write_bytes(b"half written")
    schema = pa.schema([("group_high", pa.uint64())])
    rows = pa.RecordBatch.from_pydict({"group_high": [2**63, 5, 2**63]}, schema=schema)
    again = spill.Spill(left, schema, 1, lambda table: table)
    again.add(rows)
    assert [part.column(0).to_pylist() for part in again.partitions()] == [[5], [2**63, 2**63]]
    assert digests(bench.txt("\n".join(WORDS))) == expected


def test_two_runs_give_equal_files(bench) -> None:
    sources = repetitive_bench(bench)
    one, two = (bench.corpus(*sources, validation_share=0.1, test_share=0.1) for _ in range(2))
    assert digests(one) == digests(two)
    assert set(digests(one)) == {
        "train.parquet", "validation.parquet", "test.parquet", "rejections.parquet", "rejection_examples.parquet"
    }  # fmt: skip
    assert pq.read_schema(one.out / "train.parquet").names == ["text", "corpus"]


def test_compaction_keeps_the_first_repetitions_and_all_counts() -> None:
    count = 50
    table = pa.table(
        {
            "group_high": pa.array([1] * count + [2], pa.uint64()),
            "group_low": pa.array([1] * (count + 1), pa.uint64()),
            "split": pa.array([0] * (count + 1), pa.uint8()),
            "corpus": pa.array([0] * (count + 1), pa.uint16()),
            "line": range(count + 1),
            "size": [3] * (count + 1),
            "copies": [1] * (count + 1),
            "text": ["abc"] * (count + 1),
        }
    )
    small = compact(compact(table))
    assert small.num_rows == REPEATS_KEPT + 2
    assert small.column("line").to_pylist() == [*range(REPEATS_KEPT + 1), count]
    assert sum(small.column("copies").to_pylist()) == count + 1
    assert sum(small.column("size").to_pylist()) == 3 * (count + 1)
    assert small.column("copies").to_pylist()[:REPEATS_KEPT] == [1] * REPEATS_KEPT


def test_row_groups_do_not_depend_on_the_batches(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(row_groups, "ROW_GROUP_BYTES", 1000)
    monkeypatch.setattr(row_groups, "ROW_GROUP_ROWS", 40)
    table = pa.table({"text": ["x" * (i % 90) for i in range(500)], "corpus": ["a"] * 500})
    contents = set()
    for step in (1, 7, 100, 500):
        with row_groups.TextWriter(tmp_path / f"{step}.parquet", table.schema) as writer:
            for start in range(0, 500, step):
                writer.write(table.slice(start, step))
        contents.add((tmp_path / f"{step}.parquet").read_bytes())
        assert pq.read_table(tmp_path / f"{step}.parquet").equals(table)
    assert len(contents) == 1
    file = pq.ParquetFile(tmp_path / "1.parquet").metadata
    assert max(file.row_group(i).num_rows for i in range(file.num_row_groups)) <= 40


def test_batches_of_parquet_files_do_not_matter(bench, monkeypatch) -> None:
    pq.write_table(pa.table({"text": WORDS * 2}), bench.root / "a.parquet")
    expected = digests(bench.corpus(bench.source("a.parquet")))
    monkeypatch.setattr(read_parquet, "_BATCH_ROWS", 97)
    assert digests(bench.corpus(bench.source("a.parquet"))) == expected


# -------------------------------------------------------------------------------------------------------------- filters


def test_lengths_are_counted_in_characters_of_the_cleaned_text(bench) -> None:
    outcome = bench.txt(" 字字 \n字字字\nabcd\nabcde\nab\n", min_characters=3, max_characters=4)
    assert outcome.all_texts() == {"字字字", "abcd"}
    assert outcome.rejected() == {"too-long": 1, "too-short": 2}


@pytest.mark.parametrize(("share", "kept"), [(0.0, 3), (0.5, 2), (0.6, 1), (1.0, 1)])
def test_the_script_share_is_over_letters(bench, share: float, kept: int) -> None:
    outcome = bench.txt("ab 123 жз!\nabcd ... 1\nжзй a\n12 34\n", scripts=("Latin",), min_script_share=share)
    assert len(outcome.all_texts()) == kept
    assert outcome.rejected()["no-letters"] == 1


def test_without_scripts_texts_without_letters_are_kept(bench) -> None:
    assert bench.txt("12 34\n!?\n").all_texts() == {"12 34", "!?"}


def test_the_ratio_of_lengths_counts_either_way(bench) -> None:
    bench.write("a.tsv", "src\ttgt\naa\tbbbb\nc\tddd\neee\tf\ngg\thh\n")
    outcome = bench.bitext(bench.source("a.tsv"), max_length_ratio=2.0)
    assert sorted(outcome.pairs()) == [("aa", "bbbb"), ("gg", "hh")]
    assert outcome.rejected() == {"length-ratio": 2}


def test_every_side_has_its_scripts(bench) -> None:
    bench.write("a.tsv", "src\ttgt\nhouse\tдом\nдом\thouse\nhouse\thouse\n")
    outcome = bench.bitext(bench.source("a.tsv"), scripts=("Cyrillic",), source_scripts=("Latin",))
    assert outcome.pairs() == [("house", "дом")]
    assert outcome.rejected() == {"wrong-script": 2}
