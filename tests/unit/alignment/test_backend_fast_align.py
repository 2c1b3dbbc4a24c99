import logging
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from configs.schema import AlignmentConfig
from tasks.alignment.aligner import Aligned, Job
from tasks.alignment.backends import program_input, program_output, registry
from tasks.alignment.backends.fast_align import command, find_binary
from tasks.alignment.child_process import ProgramError
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


PAIRS = [("c a b", "x y"), ("d", "z z")]


@pytest.fixture
def fake(tmp_path: Path) -> Callable[[str], Path]:
    """Writer of a fake fast_align with the given Python code."""

    def write(code: str) -> Path:
        path = tmp_path / "fast_align_program"
        path.write_text(f"#!{sys.executable}\n{code}")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return write


@pytest.fixture
def run(make_job: Callable[..., Job], fake: Callable[[str], Path]) -> Callable[..., tuple[Job, Aligned]]:
    """Aligns pairs with a fake program."""

    def align(code: str, pairs: list[tuple[str, str]] = PAIRS, **values: object) -> tuple[Job, Aligned]:
        job = make_job(pairs, files={"fast_align": fake(code)}, **{"aligner": "fast_align", **values})
        return job, registry.align(job)

    return align


@pytest.mark.parametrize("threads", [1, 2])
def test_links_figures_and_progress(
    run: Callable[..., tuple[Job, Aligned]], links_of, tmp_path: Path, threads: int
) -> None:
    calls: list[tuple[float, float]] = []
    job, aligned = run(
        WELL, iterations=3, threads=threads, report=lambda done, total, message: calls.append((done, total))
    )
    assert (tmp_path / "fast_align.txt").read_text() == "0 1 2 ||| 0 1\n3 ||| 2 2\n"
    for direction in ("forward", "reverse"):
        assert links_of(job, aligned, direction) == ["0-0 1-1", "0-0"]
        figures = aligned.iterations[direction]
        assert [row.tension for row in figures] == [4.0, 4.0, 6.0]
        assert [row.log_likelihood for row in figures] == [-100.5, -50.25, -33.5]
        assert [row.p_null for row in figures[:2]] == [0.07, 0.07]
        assert figures[2].p_null != figures[2].p_null  # the program does not compute it in the last pass
    assert aligned.expected is None
    assert calls[-1] == (6, 6)
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)


def test_both_directions_run_at_once_where_threads_allow(
    run: Callable[..., tuple[Job, Aligned]], tmp_path: Path
) -> None:
    meet = f"""
mine, other = ("r", "f") if "-r" in arguments else ("f", "r")
open({str(tmp_path)!r} + "/" + mine, "w").close()
end = time.monotonic() + 5
while not os.path.exists({str(tmp_path)!r} + "/" + other):
    if time.monotonic() > end:
        sys.exit(9)  # alone: the other direction has not begun
    time.sleep(0.01)
links()
"""
    _, aligned = run(START + meet, threads=2)
    assert set(aligned.best) == {"forward", "reverse"}


def test_lines_within_a_pass_are_progress(run: Callable[..., tuple[Job, Aligned]]) -> None:
    calls: list[float] = []
    code = START + "log('ITERATION 1', '.. [1]', 'ITERATION 2 (FINAL)')\nlinks()\n"
    run(code, iterations=2, directions=("forward",), report=lambda done, total, message: calls.append(done))
    assert calls == [0, 0.5, 1, 2]


def test_the_text_cannot_break_the_format(run: Callable[..., tuple[Job, Aligned]], tmp_path: Path) -> None:
    pairs = [("||| a\tb \x00 \u2028", "||| ||| \r"), ("a", "|||")]
    run(WELL, pairs)
    assert (tmp_path / "fast_align.txt").read_text() == "0 1 2 3 ||| 0 0 1\n4 ||| 0\n"


def test_output_is_read_in_blocks(run: Callable[..., tuple[Job, Aligned]], links_of, monkeypatch) -> None:
    pairs = [(f"a{k} b", "x y z") for k in range(50)] + [("a", "x")]
    monkeypatch.setattr(program_output, "BLOCK_BYTES", 7)
    monkeypatch.setattr(program_input, "BLOCK_WORDS", 9)
    job, aligned = run(WELL, pairs)
    assert links_of(job, aligned, "reverse") == ["0-0 1-1"] * 50 + ["0-0"]


def test_command_of_each_model() -> None:
    binary, text = Path("/bin/fast_align"), Path("/tmp/in put.txt")
    start = ["/bin/fast_align", "-i", "/tmp/in put.txt", "-I", "5"]
    bayes = AlignmentConfig(variational_bayes=True)
    assert command(binary, text, bayes, True) == [
        *start, "-d", "-q", "0.08", "-T", "4.0", "-o", "-v", "-a", "0.01", "-r"
    ]  # fmt: skip
    assert command(binary, text, AlignmentConfig(model="model1"), False) == start
    assert command(binary, text, AlignmentConfig(optimize_tension=False), False) == [
        *start, "-d", "-q", "0.08", "-T", "4.0"
    ]  # fmt: skip


def test_failure_says_command_code_and_last_lines(run: Callable[..., tuple[Job, Aligned]]) -> None:
    with pytest.raises(ProgramError, match=r"(?s)fast_align_program -i .*exit code 3.*:\nline 10\nline 11\n.*line 29$"):
        run(START + "for k in range(30): log(f'line {k}')\nsys.exit(3)")


def test_death_by_signal_is_a_failure(run: Callable[..., tuple[Job, Aligned]]) -> None:
    with pytest.raises(ProgramError, match="signal SIGSEGV"):
        run(START + "os.kill(os.getpid(), 11)")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("links(skip=1)", "gave 1 lines for 2 sentence pairs"),
        ("print('0-0\\n0-0', end='')", "ends within a line"),
        ("links()\nlinks()", "gave 4 or more lines for 2 sentence pairs"),
        ("print('usage')", "line 1, byte 0: not a link"),
        ("print('0-0')\nprint('0-2')", "link on line 2 points outside"),
        ("print('0-0 1-0 0-1')\nprint('0-0')", "more than one link"),
    ],
)
def test_output_that_does_not_fit(run: Callable[..., tuple[Job, Aligned]], code: str, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        run(START + code, directions=("forward",))


def test_a_failing_direction_ends_the_other_and_everything_it_started(
    run: Callable[..., tuple[Job, Aligned]], tmp_path: Path, ended: Callable[[Path], bool]
) -> None:
    ids = tmp_path / "ids"
    code = f"""
if "-r" in arguments:
    while not os.path.exists({str(ids)!r}):
        time.sleep(0.01)
    sys.exit(4)
child = subprocess.Popen(["sleep", "60"])
open({str(ids)!r} + ".tmp", "w").write(f"{{os.getpid()}} {{child.pid}}")
os.replace({str(ids)!r} + ".tmp", {str(ids)!r})
time.sleep(60)
"""
    with pytest.raises(ProgramError, match="exit code 4"):
        run(START + code, threads=2)
    assert ended(ids)


def test_an_interrupt_ends_the_programs(
    run: Callable[..., tuple[Job, Aligned]], tmp_path: Path, ended: Callable[[Path], bool]
) -> None:
    ids = tmp_path / "id"

    def stop(done: float, total: float, message: str) -> None:
        raise KeyboardInterrupt

    code = f"open({str(ids)!r}, 'w').write(str(os.getpid()))\npassed(1)\ntime.sleep(60)"
    with pytest.raises(KeyboardInterrupt):
        run(START + code, directions=("forward",), report=stop)
    assert ended(ids)


def test_standard_error_goes_to_the_log(
    run: Callable[..., tuple[Job, Aligned]], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        run(WELL)
    for direction in ("forward", "reverse"):
        assert f"fast_align, {direction}: ITERATION 5 (FINAL)" in caplog.messages


def test_a_sentence_that_it_never_ends_on_is_refused(run: Callable[..., tuple[Job, Aligned]]) -> None:
    pairs = [("a b", "x"), ("c", " ".join(["y"] * 32_767))]
    with pytest.raises(InputError, match="32,767 words"):
        run(WELL, pairs)
    _, aligned = run(WELL, pairs, optimize_tension=False)
    assert len(aligned.best["forward"]) == 32_768


@pytest.mark.fast_align
def test_the_real_program_gives_the_built_in_aligners_links(make_job: Callable[..., Job], links_of) -> None:
    if find_binary() is None:
        pytest.skip("fast_align is neither on PATH nor named by LANGADAPT_FAST_ALIGN")
    pairs = [(f"the old house {k % 5} near the river", f"la malnova domo {k % 5} apud la rivero") for k in range(40)]
    theirs, ours = make_job(pairs, aligner="fast_align"), make_job(pairs, aligner="builtin")
    upstream, own = registry.align(theirs), registry.align(ours)
    for direction in ("forward", "reverse"):
        for one, other in zip(upstream.iterations[direction], own.iterations[direction], strict=True):
            assert one.log_likelihood == pytest.approx(other.log_likelihood, rel=1e-3)
        assert links_of(theirs, upstream, direction) == links_of(ours, own, direction)
