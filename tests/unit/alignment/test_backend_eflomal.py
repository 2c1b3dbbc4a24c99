import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tasks.alignment.aligner import Aligned, Job
from tasks.alignment.backends import eflomal, registry
from tasks.alignment.backends.eflomal_priors import write_priors
from tasks.contract import InputError

WORDS = {"the": "la", "old": "malnova", "house": "domo", "river": "rivero", "cat": "kato", "sees": "vidas"}
PAIRS = [
    (" ".join(words), " ".join(WORDS[word] for word in words))
    for words in (
        np.random.default_rng(seed).choice(list(WORDS), 2 + seed % 4, replace=False).tolist() for seed in range(300)
    )
]


@pytest.fixture
def run(make_job: Callable[..., Job]) -> Callable[..., tuple[Job, Aligned]]:
    """Aligns pairs with the real program."""
    if eflomal.find_binary() is None:
        pytest.skip("eflomal is not installed: pip install 'langadapt[eflomal]'")

    def align(pairs: list[tuple[str, str]], **values: object) -> tuple[Job, Aligned]:
        job = make_job(pairs, **{"aligner": "eflomal", **values})
        return job, registry.align(job)

    return align


def right(job: Job, aligned: Aligned) -> float:
    """Share of the target words of `PAIRS` that are linked to the word at the same place."""
    places = np.concatenate([np.arange(len(pair[1].split(" "))) for pair in PAIRS])
    return float(np.mean(aligned.best["forward"] == places))


@pytest.mark.eflomal
@pytest.mark.parametrize("model", ["diagonal", "model1"])
def test_translations_are_linked_in_both_directions(run: Callable[..., tuple[Job, Aligned]], model: str) -> None:
    calls: list[tuple[float, float]] = []
    job, aligned = run(PAIRS, model=model, report=lambda done, total, message: calls.append((done, total)))
    assert right(job, aligned) > 0.9
    assert np.mean(aligned.best["forward"] == aligned.best["reverse"]) > 0.9  # the sentences are of equal lengths
    assert aligned.iterations == {"forward": (), "reverse": ()}
    assert aligned.expected is None
    assert calls[-1][0] == calls[-1][1]
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)


@pytest.mark.eflomal
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_one_direction_alone(run: Callable[..., tuple[Job, Aligned]], direction: str) -> None:
    _, aligned = run(PAIRS, directions=(direction,))
    assert list(aligned.best) == [direction]


@pytest.mark.eflomal
@pytest.mark.parametrize(
    "pairs",
    [
        [("a", "b")],
        [("the cat", "la kato")] * 2000,
        [("a " * 1499 + "a", "b"), *[("a c", "b d")] * 5],
        [("||| a\tb \x00 x\u2028y", "||| ||| \x07"), ("a", "|||")],
    ],
)
def test_odd_text(run: Callable[..., tuple[Job, Aligned]], pairs: list[tuple[str, str]]) -> None:
    job, aligned = run(pairs)
    assert len(aligned.best["forward"]) == len(job.words.target)
    assert len(aligned.best["reverse"]) == len(job.words.source)


@pytest.mark.eflomal
def test_iterations_are_those_of_the_programs_own_command(tmp_path: Path) -> None:
    """Its command says how often it samples; it is run as a program, as ours is."""
    own = Path(sys.executable).parent / "eflomal-align"
    if not own.is_file():
        pytest.skip("no eflomal-align beside this Python")
    for size in (3, 300):
        (tmp_path / "s").write_text("a b\n" * size)
        command = [str(own), "-v", "-s", "s", "-t", "s", "-f", "f", "-r", "r", "--overwrite"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        counts = [int(line.split("(")[1].split()[0]) for line in done.stderr.splitlines() if "Aligning with" in line]
        assert sorted(counts) == sorted(2 * eflomal.iterations(size, "diagonal"))  # each direction says its own


def priors(job: Job, tmp_path: Path, text: str) -> list[str]:
    (tmp_path / "priors.txt").write_text(text)
    write_priors(job, tmp_path / "priors.txt", tmp_path / "translated")
    return (tmp_path / "translated").read_text().splitlines()


PRIORS = (
    "LEX\tthe\tla\t5\nLEX\tThe\tla\t2.5\nLEX\tnone\tla\t9\nLEX\t<NULL>\tkato\t1\nLEX\tcat\t<NULL>\t4\n"
    "FERF\tthe\t1\t3\nFERF\tnone\t1\t3\nFERR\tkato\t2\t7\nHMMF\t1\t2\nHMMF\t-1\t4\nHMMR\t2\t6\n"
)


def test_priors_are_translated_into_numbers_from_1(make_job: Callable[..., Job], tmp_path: Path) -> None:
    job = make_job([("The cat the", "la kato La")], aligner="eflomal", priors="p")
    assert priors(job, tmp_path, PRIORS) == [
        "4 4 4 2 1 1 1",
        "0 2 1", "1 1 2.5", "2 0 4", "3 1 5",
        "-1 4", "1 2",
        "2 6",
        "3 1 3",
        "2 2 7",
    ]  # fmt: skip


def test_priors_of_spellings_that_differ_in_case_are_summed(make_job: Callable[..., Job], tmp_path: Path) -> None:
    job = make_job([("The cat the", "la kato La")], aligner="eflomal", priors="p", lowercase=True)
    lines = priors(job, tmp_path, PRIORS)
    assert lines[:5] == ["3 3 3 2 1 1 1", "0 2 1", "1 1 7.5", "2 0 4", "-1 4"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("LEX\ta\tb\t1\nLEX\ta b\t1\n", r"line 2 of .*priors.txt is 'LEX\\ta b\\t1': expected LEX, FERF"),
        ("LEX\ta\tb\tmany\n", "a LEX line of .*many"),
        ("HMMF\tx\t1\n", "a HMMF line of"),
        ("", "cannot be read"),
    ],
)
def test_a_file_that_is_none_of_priors(make_job: Callable[..., Job], tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        priors(make_job([("a", "b")], aligner="eflomal"), tmp_path, text)


@pytest.mark.eflomal
def test_priors_decide_where_the_text_does_not(run: Callable[..., tuple[Job, Aligned]], tmp_path: Path) -> None:
    """Two words that always come together can be told apart by priors only."""
    pairs = [("left right", "dekstra maldekstra")] * 20
    (tmp_path / "priors.txt").write_text("LEX\tleft\tmaldekstra\t1000\nLEX\tright\tdekstra\t1000\n")
    _, aligned = run(pairs, priors="priors.txt", files={"priors": tmp_path / "priors.txt"})
    assert np.mean(aligned.best["forward"].reshape(-1, 2) == [1, 0]) > 0.9
    (tmp_path / "priors.txt").write_text("LEX\tleft\tdekstra\t1000\nLEX\tright\tmaldekstra\t1000\n")
    _, aligned = run(pairs, priors="priors.txt", files={"priors": tmp_path / "priors.txt"})
    assert np.mean(aligned.best["forward"].reshape(-1, 2) == [0, 1]) > 0.9


@pytest.mark.eflomal
def test_priors_of_its_own_command_are_read(run: Callable[..., tuple[Job, Aligned]], tmp_path: Path) -> None:
    own = Path(sys.executable).parent / "eflomal-makepriors"
    if not own.is_file():
        pytest.skip("no eflomal-makepriors beside this Python")
    (tmp_path / "pairs").write_text("".join(f"{source} ||| {target}\n" for source, target in PAIRS))
    links = [" ".join(f"{k}-{k}" for k in range(len(source.split()))) for source, _ in PAIRS]
    (tmp_path / "links").write_text("\n".join(links) + "\n")
    command = [str(own), "-i", "pairs", "-f", "links", "-r", "links", "-p", "priors.txt"]
    subprocess.run(command, cwd=tmp_path, check=True)
    job, aligned = run(PAIRS, priors="priors.txt", files={"priors": tmp_path / "priors.txt"})
    assert right(job, aligned) > 0.97
