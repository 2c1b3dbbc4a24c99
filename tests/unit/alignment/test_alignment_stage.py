import hashlib
import json
import stat
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from configs.schema import AlignmentConfig
from tasks.alignment.backends import eflomal
from tasks.contract import InputError, StageContext, StageResult, load_stage

WORDS = {
    "the": "la", "old": "malnova", "house": "domo", "river": "rivero", "cat": "kato", "sees": "vidas",
    "Green": "Verda", "green": "verda", "12": "12", "кот": "кот",
}  # fmt: skip
PAIRS = [
    ("the old house", "la malnova domo"),
    ("the cat sees the river", "la kato vidas la rivero"),
    ("Green house", "Verda domo"),
    ("the green river", "la verda rivero"),
    ("old cat 12", "malnova kato 12"),
    ("the кот sees", "la кот vidas"),
    ("the", "la"),
    ("green cat sees | ||| house", "verda kato vidas | ||| domo"),
] * 12

Run = Callable[..., tuple[StageResult, Path]]


@pytest.fixture
def run_stage(tokenizer_folders: dict[str, Path], tmp_path: Path, write_bitext: Callable[..., Path]) -> Run:
    """Runs the stage on pairs of sentences."""
    number = iter(range(100))

    def run(
        pairs: Sequence[tuple[str, str]],
        source: str = "byte-level",
        target: str = "sentencepiece",
        corpora: Sequence[str] | None = ("c",),
        folder: Path | None = None,
        **values: object,
    ):
        folder = folder or tmp_path / str(next(number))
        (folder / "out").mkdir(parents=True, exist_ok=True)
        (folder / "work").mkdir(exist_ok=True)
        inputs = {
            "bitext": write_bitext(pairs, corpora),
            "source_tokenizer": tokenizer_folders[source],
            "tokenizer": tokenizer_folders[target],
        }
        config = {name: value for name, value in values.items() if name != "files"}
        given = values.get("files", {})
        context = StageContext(AlignmentConfig(**config), inputs, folder / "out", folder / "work", given)
        return load_stage("alignment").run(context), folder / "out"

    return run


def read(folder: Path, name: str) -> list[dict]:
    return pq.read_table(folder / f"{name}.parquet").to_pylist()


def named_pairs(folder: Path) -> dict[tuple[str, str], float]:
    source, target = ([row["text"] for row in read(folder, f"{side}_units")] for side in ("source", "target"))
    return {(source[r["source_unit"]], target[r["target_unit"]]): r["count"] for r in read(folder, "word_pairs")}


@pytest.mark.parametrize("source", ["byte-level", "sentencepiece-legacy"])
@pytest.mark.parametrize("counts", ["expected", "links"])
def test_translations_are_the_most_frequent_pairs(run_stage: Run, source: str, counts: str) -> None:
    result, out = run_stage(PAIRS, source, counts=counts, aligner="builtin")
    pairs = named_pairs(out)
    for word, translation in WORDS.items():
        best = max((count, t) for (s, t), count in pairs.items() if s == word)
        assert best[1] == translation
    assert result.summary["pairs"] == result.summary["pairs_read"] == len(PAIRS)
    assert [row["step"] for row in result.measurements] == ["units", "alignment", "links", "files", "diagnostics"]


def test_schemas_and_order(run_stage: Run) -> None:
    _, out = run_stage(PAIRS)
    schemas = {path.stem: pq.read_schema(path) for path in out.iterdir()}
    unit = {"unit_id": pa.int32(), "text": pa.string(), "token_ids": pa.list_(pa.int32()), "frequency": pa.int64()}
    expected = {
        "source_units": unit,
        "target_units": unit,
        "word_pairs": {"source_unit": pa.int32(), "target_unit": pa.int32(), "corpus": pa.int32()}
        | {"count": pa.float64(), "reverse_count": pa.float64()},
        "corpora": {"corpus": pa.int32(), "name": pa.string(), "pairs": pa.int64()},
        "links": {"pair": pa.int64(), "links": pa.string()},
        "iterations": {"direction": pa.string(), "iteration": pa.int32()}
        | dict.fromkeys(["log_likelihood", "perplexity", "tension", "p_null"], pa.float64()),
    }
    found = {name: dict(zip(schema.names, schema.types, strict=True)) for name, schema in schemas.items()}
    assert {name: found[name] for name in expected} == expected
    assert set(found) == {*expected, "top_pairs", "source_words", "target_words"}
    assert read(out, "corpora") == [{"corpus": 0, "name": "c", "pairs": len(PAIRS)}]
    rows = [(row["source_unit"], row["target_unit"]) for row in read(out, "word_pairs")]
    assert rows == sorted(rows)
    assert all(row["count"] >= 0.01 for row in read(out, "word_pairs"))
    assert [(row["direction"], row["iteration"]) for row in read(out, "iterations")] == [
        (name, number) for name in ("forward", "reverse") for number in range(1, 6)
    ]
    units = read(out, "source_units")
    assert [row["unit_id"] for row in units] == list(range(len(units)))
    assert units[0]["frequency"] == sum(pair[0].startswith("the") for pair in PAIRS)  # "the" inside is another token


@pytest.mark.parametrize("values", [{}, {"counts": "links", "lowercase": True}, {"model": "model1", "unit": "tokens"}])
def test_the_same_input_gives_the_same_bytes(run_stage: Run, values: dict) -> None:
    digests = []
    for _ in range(2):
        _, out = run_stage(PAIRS, **values)
        digests.append({path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in out.iterdir()})
    assert digests[0] == digests[1]


def test_lower_casing_shares_evidence_but_keeps_cased_counts(run_stage: Run) -> None:
    pairs = [*PAIRS, ("GREEN", "VERDA")]
    cased = named_pairs(run_stage(pairs)[1])
    lower = named_pairs(run_stage(pairs, lowercase=True)[1])
    assert lower["Green", "Verda"] > 0
    assert lower["green", "verda"] > 0
    assert lower["GREEN", "VERDA"] > 0.9
    assert set(lower) <= {*cased, *lower}


def test_bad_pairs_are_left_out_and_counted(run_stage: Run) -> None:
    pairs = [("the cat", "la kato"), ("", "la"), ("the", " \t"), ("cat " * 30, "kato"), ("old", "malnova")]
    result, out = run_stage(pairs, max_words=20)
    summary = result.summary
    assert (summary["pairs_read"], summary["pairs"], summary["pairs_empty"], summary["pairs_too_long"]) == (5, 2, 2, 1)
    assert [row["pair"] for row in read(out, "links")] == [0, 4]
    assert sum(row["frequency"] for row in read(out, "source_units")) == 3


def test_no_usable_pair_is_an_error(run_stage: Run) -> None:
    with pytest.raises(
        InputError, match=r"of 2 training pairs .* 1 have a side without a word and 1 a side of more than"
    ):
        run_stage([("", "la"), ("cat " * 30, "kato")], max_words=20)
    with pytest.raises(InputError, match="of 0 training pairs"):
        run_stage([])


@pytest.mark.parametrize("pairs", [[("cat", "kato")], [("the old cat", "la malnova kato")] * 1000])
@pytest.mark.parametrize("model", ["diagonal", "model1"])
def test_degenerate_corpora(run_stage: Run, pairs: list[tuple[str, str]], model: str) -> None:
    result, out = run_stage(pairs, model=model)
    assert result.summary["pairs"] == len(pairs)
    assert all(row["count"] == row["count"] for row in read(out, "word_pairs"))
    assert all(row["log_likelihood"] == row["log_likelihood"] for row in read(out, "iterations"))


@pytest.mark.parametrize(
    ("symmetrization", "counts", "directions"),
    [
        ("forward", "expected", ["forward", "reverse"]),
        ("reverse", "links", ["reverse"]),
        ("reverse", "expected", ["forward", "reverse"]),
        ("forward", "links", ["forward"]),
        ("union", "links", ["forward", "reverse"]),
    ],
)
def test_only_the_directions_that_matter_are_trained(
    run_stage: Run, symmetrization: str, counts: str, directions: list[str]
) -> None:
    _, out = run_stage(PAIRS, symmetrization=symmetrization, counts=counts, aligner="builtin")
    assert list(dict.fromkeys(row["direction"] for row in read(out, "iterations"))) == directions


def test_a_folder_without_tokenizer_is_an_error(
    run_stage: Run, tokenizer_folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = tmp_path / "nothing"
    empty.mkdir()
    monkeypatch.setitem(tokenizer_folders, "none", empty)
    with pytest.raises(InputError, match=r"source tokenizer: .*nothing has no tokenizer"):
        run_stage(PAIRS, source="none")


@pytest.mark.parametrize("directions", ["forward", "reverse", "grow-diag-final-and"])
def test_a_program_with_the_same_links_gives_the_same_files(run_stage: Run, tmp_path: Path, directions: str) -> None:
    """A fake program repeats the built-in aligner's links, so the rest of the stage can be compared."""
    pairs = PAIRS[:-5]
    answers = {
        name: [row["links"] for row in read(run_stage(pairs, symmetrization=name)[1], "links")]
        for name in ("forward", "reverse")
    }
    (tmp_path / "answers.json").write_text(json.dumps(answers))
    program = tmp_path / "fake_align"
    program.write_text(
        f"#!{sys.executable}\nimport json, sys\nanswers = json.load(open({str(tmp_path / 'answers.json')!r}))\n"
        "print(*answers['reverse' if '-r' in sys.argv else 'forward'], sep='\\n')\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    files = {"fast_align": program}
    _, built_in = run_stage(pairs, symmetrization=directions)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LANGADAPT_FAST_ALIGN", str(program))
        result, out = run_stage(pairs, symmetrization=directions, aligner="fast_align", files=files)
        with pytest.raises(InputError, match="gives links only"):
            run_stage(PAIRS, aligner="fast_align", counts="expected")
    assert result.summary["aligner"] == "fast_align"
    for name in ("source_units", "target_units", "word_pairs", "links", "corpora", "source_words", "top_pairs"):
        assert read(out, name) == read(built_in, name)


def test_a_word_list_as_aligner(run_stage: Run, tmp_path: Path) -> None:
    path = tmp_path / "words.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in WORDS.items()))
    _, out = run_stage(PAIRS, aligner="dictionary", dictionary="words.tsv", files={"dictionary": path})
    assert read(out, "links")[0]["links"] == "0-0 1-1 2-2"
    assert read(out, "iterations") == []


def test_counts_are_kept_by_corpus(run_stage: Run) -> None:
    corpora = ["news" if k % 3 else "bible" for k in range(len(PAIRS))]
    _, out = run_stage(PAIRS, corpora=corpora)
    assert read(out, "corpora") == [
        {"corpus": 0, "name": "bible", "pairs": len(PAIRS) // 3},
        {"corpus": 1, "name": "news", "pairs": len(PAIRS) - len(PAIRS) // 3},
    ]
    whole = {(row["source_unit"], row["target_unit"]): row["count"] for row in read(run_stage(PAIRS)[1], "word_pairs")}
    sums: dict[tuple[int, int], float] = {}
    rows = read(out, "word_pairs")
    for row in rows:
        key = row["source_unit"], row["target_unit"]
        sums[key] = sums.get(key, 0) + row["count"]
    assert sums == whole
    assert [(r["corpus"], r["source_unit"], r["target_unit"]) for r in rows] == sorted(
        (r["corpus"], r["source_unit"], r["target_unit"]) for r in rows
    )
    _, expected = run_stage(PAIRS, corpora=corpora, counts="expected")
    assert {row["corpus"] for row in read(expected, "word_pairs")} == {0, 1}


def test_a_bitext_that_names_no_corpus_is_one(run_stage: Run) -> None:
    _, out = run_stage(PAIRS, corpora=None)
    assert [row["name"] for row in read(out, "corpora")] == ["bitext"]


def test_blocks_of_pairs_change_nothing(run_stage: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    _, whole = run_stage(PAIRS, lowercase=True)
    monkeypatch.setattr("tasks.alignment.align_bitext.BLOCK_PAIRS", 7)
    monkeypatch.setattr("tasks.alignment.encoded_bitext.BLOCK_TOKENS", 5)
    monkeypatch.setattr("tasks.alignment.encoded_bitext.BATCH_ROWS", 11)
    _, parts = run_stage(PAIRS, lowercase=True)
    for path in whole.iterdir():
        assert path.read_bytes() == (parts / path.name).read_bytes(), path.name


def test_what_was_tokenised_before_a_kill_is_used_again(
    run_stage: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, before = run_stage(PAIRS)
    work = before.parent / "work"
    files = {path: path.stat().st_mtime_ns for path in (work / "units").iterdir()}
    assert files
    for path in before.iterdir():
        path.unlink()

    def fail(*arguments: object) -> None:
        raise AssertionError("tokenised again")

    monkeypatch.setattr("tasks.alignment.encoded_bitext.UnitEncoder", fail)
    result, again = run_stage(PAIRS, folder=before.parent)
    assert {path: path.stat().st_mtime_ns for path in (work / "units").iterdir()} == files
    assert result.summary["pairs"] == len(PAIRS)
    monkeypatch.undo()
    (work / "units" / "encoded.json").unlink()  # a kill before the end leaves everything but this
    (work / "units" / "source.bin").write_bytes(b"cut")
    result, again = run_stage(PAIRS, folder=before.parent)
    _, fresh = run_stage(PAIRS)
    for path in fresh.iterdir():
        assert path.read_bytes() == (again / path.name).read_bytes(), path.name


ODD = [
    ("the cat\tsees ||| the\x07 house", "la kato\tvidas ||| la domo \u2028\x00"),
    ("cat " * 4999 + "cat", "kato " * 4999 + "kato"),
    ("|||", "|||"),
    ("", "la"),
    ("\ufeff\u200b", "x"),
]


@pytest.mark.parametrize(
    ("aligner", "values"),
    [
        ("builtin", {"max_words": 10_000, "counts": "expected"}),
        ("builtin", {"max_words": 10_000, "model": "model1"}),
        ("dictionary", {"max_words": 10_000}),
        pytest.param("eflomal", {"max_words": 10_000}, marks=pytest.mark.eflomal),
    ],
)
def test_odd_text(run_stage: Run, tmp_path: Path, aligner: str, values: dict) -> None:
    if aligner == "eflomal" and eflomal.find_binary() is None:
        pytest.skip("eflomal is not installed: pip install 'langadapt[eflomal]'")
    files = {}
    if aligner == "dictionary":
        files = {"dictionary": tmp_path / "words.tsv"}
        files["dictionary"].write_text("cat\tkato\n")
        values = {**values, "dictionary": "words.tsv"}
    result, out = run_stage([*ODD, *PAIRS], aligner=aligner, files=files, **values)
    assert (result.summary["pairs_empty"], result.summary["pairs_too_long"]) == (2, 0)
    assert [row["pair"] for row in read(out, "links")][:4] == [0, 1, 2, 5]
    for row in read(out, "word_pairs"):
        assert row["count"] == row["count"]
        assert row["reverse_count"] == row["reverse_count"]


def test_a_hundred_thousand_copies_of_one_pair(run_stage: Run) -> None:
    result, out = run_stage([("the cat", "la kato")] * 100_000)
    assert result.summary["pairs"] == 100_000
    assert all(row["count"] in (100_000, 0) for row in read(out, "word_pairs"))


def test_progress_reaches_its_total(tokenizer_folders: dict[str, Path], write_bitext: Callable, tmp_path: Path) -> None:
    calls: list[tuple[float, float | None, str]] = []

    def progress(done: float, total: float | None, unit: str, message: str = "") -> None:
        calls.append((done, total, unit))

    for name in ("out", "work"):
        (tmp_path / name).mkdir()
    folder = tokenizer_folders["sentencepiece"]
    inputs = {"bitext": write_bitext(PAIRS), "source_tokenizer": folder, "tokenizer": folder}
    load_stage("alignment").run(
        StageContext(AlignmentConfig(), inputs, tmp_path / "out", tmp_path / "work", progress=progress)
    )
    iterations = [(done, total) for done, total, unit in calls if unit == "iterations"]
    assert iterations[-1][0] == iterations[-1][1]
    assert [done for done, _ in iterations] == sorted(done for done, _ in iterations)
    assert calls[-1] == (len(PAIRS), len(PAIRS), "pairs")
    assert (len(PAIRS), len(PAIRS), "pairs") in calls
