import logging
import os
import shutil
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from configs.schema import AlignmentConfig
from tasks.alignment.backend import binary_digest, find_binary, resolve_aligner
from tasks.alignment.cells import Bitext
from tasks.alignment.child_process import ProgramError, run_program
from tasks.alignment.fast_align_binary import align, command
from tasks.alignment.fast_align_model import ModelSettings
from tasks.alignment.links import format_pharaoh
from tasks.contract import InputError

# What every fake does first: read the pairs, and print what fast_align prints.
START = """
import os, subprocess, sys, time
arguments = sys.argv[1:]
pairs = [line.split(" ||| ") for line in open(arguments[arguments.index("-i") + 1]).read().split("\\n")[:-1]]
passes = int(arguments[arguments.index("-I") + 1])
def log(*lines):
    print(*lines, sep="\\n", file=sys.stderr, flush=True)
log("INITIAL PASS ", "expected target length = source length * 1")
def passed(number):
    last = number == passes
    log(f"ITERATION {number}" + (" (FINAL)" if last else ""), "..", f"  log_e likelihood: {-100.5 / number}")
    log(f"        perplexity: {50 / number}", f"      posterior p0: {0 if last else 0.07}", " posterior al-feat: -0.1")
    if 1 < number < passes:
        log("  1  model al-feat: -0.2 (tension=4)", f"     final tension: {4 + number}")
def links(skip=0):
    for source, target in pairs[: len(pairs) - skip]:
        shorter = min(len(source.split()), len(target.split()))
        print(" ".join(f"{i}-{i}" for i in reversed(range(shorter))))
"""
WELL = START + "for number in range(1, passes + 1): passed(number)\nlinks()\n"


@pytest.fixture
def fake(tmp_path: Path) -> Callable[[str], Path]:
    """Writer of a fake fast_align with the given Python code."""

    def write(code: str) -> Path:
        path = tmp_path / "fast_align"
        path.write_text(f"#!{sys.executable}\n{code}")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return write


@pytest.fixture
def two_pairs(bitext_of: Callable[..., Bitext]) -> Bitext:
    return bitext_of([([3, 1, 2], [0, 1]), ([0], [2, 2])])


def alive(number: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        return "Z" not in Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(condition: Callable[[], bool], seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def test_links_figures_and_progress_of_a_run(fake: Callable[[str], Path], two_pairs: Bitext, tmp_path: Path) -> None:
    reports: list[int] = []
    links, iterations = align(two_pairs, fake(WELL), ModelSettings(iterations=3), tmp_path, report=reports.append)
    assert (tmp_path / "fast_align.txt").read_text() == "3 1 2 ||| 0 1\n0 ||| 2 2\n"
    assert format_pharaoh(links).to_pylist() == ["0-0 1-1", "0-0"]
    assert reports == [0, 1, 2, 3]
    assert [figures.tension for figures in iterations] == [4.0, 4.0, 6.0]
    assert [figures.log_likelihood for figures in iterations] == [-100.5, -50.25, -33.5]
    assert [figures.p_null for figures in iterations[:2]] == [0.07, 0.07]
    assert iterations[2].p_null != iterations[2].p_null  # the program does not compute it in the last pass


def test_command_of_each_model() -> None:
    binary, text = Path("/bin/fast_align"), Path("/tmp/in put.txt")
    start = ["/bin/fast_align", "-i", "/tmp/in put.txt", "-I", "5"]
    assert command(binary, text, ModelSettings(), True) == [
        *start, "-d", "-q", "0.08", "-T", "4.0", "-o", "-v", "-a", "0.01", "-r"
    ]  # fmt: skip
    assert command(binary, text, ModelSettings(diagonal=False, alpha=0.0), False) == start
    assert command(binary, text, ModelSettings(optimize_tension=False), False) == [
        *start, "-d", "-q", "0.08", "-T", "4.0", "-v", "-a", "0.01"
    ]  # fmt: skip


def test_failure_says_command_code_and_last_lines(
    fake: Callable[[str], Path], two_pairs: Bitext, tmp_path: Path
) -> None:
    binary = fake(START + "for k in range(30): log(f'line {k}')\nsys.exit(3)")
    with pytest.raises(ProgramError, match=r"(?s)fast_align -i .*exit code 3.*:\nline 10\nline 11\n.*line 29$"):
        align(two_pairs, binary, ModelSettings(), tmp_path)


def test_death_by_signal_is_a_failure(fake: Callable[[str], Path], two_pairs: Bitext, tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match="signal SIGSEGV"):
        align(two_pairs, fake(START + "os.kill(os.getpid(), 11)"), ModelSettings(), tmp_path)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (START + "links(skip=1)", "gave 1 lines for 2 sentence pairs"),
        (START + "print('usage')", "line 1, byte 0: not a link"),
        (START + "print('0-0')\nprint('0-2')", "link on line 2 points outside"),
    ],
)
def test_output_that_does_not_fit(
    fake: Callable[[str], Path], two_pairs: Bitext, tmp_path: Path, code: str, message: str
) -> None:
    with pytest.raises(ProgramError, match=message):
        align(two_pairs, fake(code), ModelSettings(), tmp_path)


def test_a_program_that_cannot_be_started(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match="cannot start"):
        run_program([str(tmp_path / "none")], tmp_path / "out", print)


def test_the_whole_group_is_killed_when_the_run_is_left(
    fake: Callable[[str], Path], two_pairs: Bitext, tmp_path: Path
) -> None:
    ids = tmp_path / "ids"
    hang = f"""
child = subprocess.Popen(["sleep", "60"])
open({str(ids)!r}, "w").write(f"{{os.getpid()}} {{child.pid}}")
passed(1)
time.sleep(60)
"""

    def stop(iterations: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        align(two_pairs, fake(START + hang), ModelSettings(), tmp_path, report=stop)
    assert wait_until(lambda: not any(alive(int(number)) for number in ids.read_text().split()))


@pytest.mark.skipif(sys.platform != "linux", reason="parent-death signals are Linux's")
def test_the_program_dies_with_its_parent(fake: Callable[[str], Path], tmp_path: Path) -> None:
    ids = tmp_path / "id"
    binary = fake(f"import os, time\nopen({str(ids)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)")
    parent = os.fork()
    if parent == 0:
        run_program([str(binary)], tmp_path / "out", print)
        os._exit(0)
    try:
        assert wait_until(lambda: ids.exists() and bool(ids.read_text()))
    finally:
        os.kill(parent, 9)
        os.waitpid(parent, 0)
    assert wait_until(lambda: not alive(int(ids.read_text())))


def test_standard_error_goes_to_the_log(
    fake: Callable[[str], Path], two_pairs: Bitext, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        align(two_pairs, fake(WELL), ModelSettings(), tmp_path)
    assert "fast_align: ITERATION 5 (FINAL)" in caplog.messages


def test_where_the_program_is_found(
    fake: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("LANGADAPT_FAST_ALIGN", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert find_binary() is None
    binary = fake(WELL)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_binary() == binary
    other = tmp_path / "other"
    shutil.copy(binary, other)
    monkeypatch.setenv("LANGADAPT_FAST_ALIGN", str(other))
    assert find_binary() == other
    assert binary_digest(other) == binary_digest(binary)
    assert len(binary_digest(other)) == 64
    monkeypatch.setenv("LANGADAPT_FAST_ALIGN", str(tmp_path / "none"))
    with pytest.raises(InputError, match=r"LANGADAPT_FAST_ALIGN is '.*none'"):
        find_binary()


def test_resolution(fake: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LANGADAPT_FAST_ALIGN", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))

    def resolved(aligner: str, counts: str) -> str:
        return resolve_aligner(AlignmentConfig(aligner=aligner, counts=counts)).aligner

    assert resolved("auto", "links") == "builtin"
    with pytest.raises(InputError, match="neither on PATH nor named by LANGADAPT_FAST_ALIGN"):
        resolved("fast_align", "links")
    monkeypatch.setenv("LANGADAPT_FAST_ALIGN", str(fake(WELL)))
    assert resolved("auto", "links") == "fast_align"
    assert resolved("auto", "expected") == "builtin"
    assert resolved("builtin", "links") == "builtin"
    assert resolved("fast_align", "links") == "fast_align"
    with pytest.raises(
        InputError, match=r"gives links only; set alignment\.counts: links, or alignment\.aligner: builtin"
    ):
        resolved("fast_align", "expected")


@pytest.mark.fast_align
@pytest.mark.parametrize("reverse", [False, True])
def test_the_real_program_gives_the_built_in_aligners_links(
    small_bitext: Bitext, tmp_path: Path, reverse: bool
) -> None:
    from tasks.alignment.cells import build_cells
    from tasks.alignment.fast_align_model import train

    binary = find_binary()
    if binary is None:
        pytest.skip("fast_align is neither on PATH nor named by LANGADAPT_FAST_ALIGN")
    links, iterations = align(small_bitext, binary, ModelSettings(), tmp_path, reverse)
    own = train(small_bitext, build_cells(small_bitext), ModelSettings(), reverse)
    for theirs, ours in zip(iterations, own.iterations, strict=True):
        assert theirs.log_likelihood == pytest.approx(ours.log_likelihood, rel=1e-3)
    same = set(zip(links.pair_ids(), links.source, links.target, strict=True))
    found = own.links()
    assert len(same & set(zip(found.pair_ids(), found.source, found.target, strict=True))) >= 0.97 * len(same)
