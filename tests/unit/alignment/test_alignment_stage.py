import hashlib
import stat
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from configs.schema import AlignmentConfig
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
        pairs: Sequence[tuple[str, str]], source: str = "byte-level", target: str = "sentencepiece", **values: object
    ):
        folder = tmp_path / str(next(number))
        (folder / "out").mkdir(parents=True)
        (folder / "work").mkdir()
        inputs = {
            "bitext": write_bitext(pairs),
            "source_tokenizer": tokenizer_folders[source],
            "tokenizer": tokenizer_folders[target],
        }
        context = StageContext(AlignmentConfig(**values), inputs, folder / "out", folder / "work")
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
    assert {row["step"] for row in result.measurements} >= {"units", "cells", "forward", "reverse", "counts"}


def test_schemas_and_order(run_stage: Run) -> None:
    _, out = run_stage(PAIRS)
    schemas = {path.stem: pq.read_schema(path) for path in out.iterdir()}
    unit = {"unit_id": pa.int32(), "text": pa.string(), "token_ids": pa.list_(pa.int32()), "frequency": pa.int64()}
    expected = {
        "source_units": unit,
        "target_units": unit,
        "word_pairs": {"source_unit": pa.int32(), "target_unit": pa.int32(), "count": pa.float64()},
        "links": {"pair": pa.int64(), "links": pa.string()},
        "iterations": {"direction": pa.string(), "iteration": pa.int32()}
        | dict.fromkeys(["log_likelihood", "perplexity", "tension", "p_null"], pa.float64()),
    }
    assert {name: dict(zip(schema.names, schema.types, strict=True)) for name, schema in schemas.items()} == expected
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
        ("forward", "expected", ["forward"]),
        ("reverse", "links", ["reverse"]),
        ("reverse", "expected", ["forward", "reverse"]),
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
    with pytest.raises(InputError, match=r"no tokenizer can be loaded from .*nothing"):
        run_stage(PAIRS, source="none")


def test_the_program_and_the_built_in_aligner_write_the_same_files(
    run_stage: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fake program answers with the built-in aligner's links, so the rest of the stage can be compared."""
    program = tmp_path / "fake_align"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(Path(__file__).resolve().parents[3])!r})\n"
        "import numpy as np\n"
        "from tasks.alignment.cells import Bitext, build_cells\n"
        "from tasks.alignment.fast_align_model import ModelSettings, train\n"
        "from tasks.alignment.links import format_pharaoh\n"
        "lines = open(sys.argv[sys.argv.index('-i') + 1]).read().split('\\n')[:-1]\n"
        "texts = zip(*(line.split(' ||| ') for line in lines))\n"
        "sides = [[[int(word) for word in part.split()] for part in side] for side in texts]\n"
        "flat = [np.array(sum(side, []), dtype=np.int32) for side in sides]\n"
        "offsets = [np.cumsum([0, *map(len, side)]) for side in sides]\n"
        "bitext = Bitext(flat[0], offsets[0], flat[1], offsets[1], flat[0].max() + 1, flat[1].max() + 1)\n"
        "links = train(bitext, build_cells(bitext), ModelSettings(), '-r' in sys.argv).links()\n"
        "print(*format_pharaoh(links).to_pylist(), sep='\\n')\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("LANGADAPT_FAST_ALIGN", str(program))
    _, built_in = run_stage(PAIRS, counts="links", aligner="builtin")
    result, out = run_stage(PAIRS, counts="links", aligner="auto")
    assert result.summary["aligner"] == "fast_align"
    for name in ("source_units", "target_units", "word_pairs", "links"):
        assert read(out, name) == read(built_in, name)
    with pytest.raises(InputError, match="gives links only"):
        run_stage(PAIRS, aligner="fast_align", counts="expected")


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
    assert calls[-1] == (10, 10, "iterations")
    assert (len(PAIRS), len(PAIRS), "pairs") in calls
