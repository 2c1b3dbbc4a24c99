import os
import re
import signal
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

from flows import cli
from flows.align_options import memory_gib
from flows.align_output import work_folder
from tasks.alignment.engine.em import train
from tasks.alignment.engine.settings import ModelSettings
from tasks.alignment.engine.shards import Resources
from tasks.alignment.links import Links, links_of_best
from tasks.alignment.pharaoh import format_pharaoh, parse_pharaoh
from tasks.alignment.plain_text import TextInput, read_text
from tasks.alignment.symmetrization import symmetrize
from tasks.contract import InputError

PAIRS = 300
METHODS = ["grow-diag-final-and", "grow-diag-final", "grow-diag", "intersection", "union", "forward", "reverse"]


def sentences(pairs=PAIRS):
    """Source sentences of made-up words, and their translations word by word in almost the same order."""
    random = np.random.default_rng(11)
    sides = ([], [])
    for _ in range(pairs):
        words = (random.zipf(1.4, random.integers(2, 12)) % 80).tolist()
        sides[0].append(" ".join(f"s{word}" for word in words))
        swap = int(random.integers(0, len(words)))
        translated = [*words[swap : swap + 2][::-1], *words[swap + 2 :]]
        sides[1].append(
            " ".join(f"t{word}" for word in [*words[:swap], *translated] if word % 13 != 5 or word == 5) or "t"
        )
    return sides


@pytest.fixture
def text(tmp_path):
    """The sentences in two files, and in one."""
    source, target = sentences()
    (tmp_path / "a").write_text("\n".join(source) + "\n")
    (tmp_path / "b").write_text("\n".join(target) + "\n")
    (tmp_path / "ab").write_text("".join(f"{a} ||| {b}\n" for a, b in zip(source, target, strict=True)))
    return tmp_path


@pytest.fixture
def align(text, monkeypatch, call):
    """Runs `langadapt align` in the folder of the text; gives exit code, output and errors."""
    monkeypatch.chdir(text)
    monkeypatch.setattr(cli.signal, "signal", lambda *_: None)
    return lambda *arguments: call("align", *map(str, arguments))


def links_of_engine(folder, settings, method):
    """The same by calling the engine."""
    text = read_text(TextInput(both=str(folder / "ab")), folder / "direct")
    trained = train(text.bitext, settings, Resources(folder / "direct"))
    directions = {
        name: links_of_best(
            best.astype(np.int32),
            text.bitext.target_offsets if name == "forward" else text.bitext.source_offsets,
            name == "reverse",
        )
        for name, best in trained.best.items()
    }
    joined = (
        directions[method] if method in directions else symmetrize(directions["forward"], directions["reverse"], method)
    )
    return "".join(line + "\n" for line in format_pharaoh(joined).to_pylist())


@pytest.mark.parametrize("method", METHODS)
def test_the_links_are_those_of_the_engine(align, text, method):
    code, out, err = align("--source", "a", "--target", "b", "--symmetrize", method)
    assert code == 0
    assert out == links_of_engine(text, ModelSettings(), method)
    assert f"{PAIRS} of {PAIRS} pairs aligned" in err


def test_without_options_both_directions_are_joined(align):
    assert align("--input", "ab")[1] == align("--input", "ab", "--symmetrize", "grow-diag-final-and")[1]


@pytest.mark.parametrize(
    ("options", "settings", "method"),
    [
        ("-d -o -v", ModelSettings(), "forward"),
        ("-dov", ModelSettings(), "forward"),
        ("-d -o -v -r", ModelSettings(), "reverse"),
        ("-d -v", ModelSettings(optimize_tension=False), "forward"),
        ("-d -T 6 -I 3", ModelSettings(alpha=0, iterations=3, tension=6, optimize_tension=False), "forward"),
        ("-T 6", ModelSettings(alpha=0, tension=6, optimize_tension=False), "forward"),
        ("-d -v -a 0.1 -q 0.2", ModelSettings(alpha=0.1, p_null=0.2, optimize_tension=False), "forward"),
        ("-d -N", ModelSettings(alpha=0, p_null=0, optimize_tension=False), "forward"),
        ("", ModelSettings(diagonal=False, alpha=0, optimize_tension=False), "forward"),
        ("-r", ModelSettings(diagonal=False, alpha=0, optimize_tension=False), "reverse"),
        ("-d -o -v --symmetrize union", ModelSettings(), "union"),
    ],
)
def test_options_of_fast_align_mean_what_they_mean_there(align, text, options, settings, method):
    code, out, _ = align("-i", "ab", *options.split())
    assert code == 0
    assert out == links_of_engine(text, settings, method)


def test_forward_links_stand_in_the_order_of_the_target_words(align):
    links = parse_pharaoh(align("--input", "ab", "--symmetrize", "forward")[1].encode())
    same = np.diff(links.pair_ids()) == 0
    assert (np.diff(links.target)[same] > 0).all()
    assert (np.diff(links.source)[same] < 0).any()


def test_parquet_holds_the_same_links(align, text):
    _, out, _ = align("--input", "ab")
    code, printed, _ = align("--input", "ab", "--format", "parquet", "--output", "links.parquet")
    assert (code, printed) == (0, "")
    table = pq.read_table(text / "links.parquet")
    assert table.column_names == ["pair", "links"]
    assert table.column("pair").to_pylist() == list(range(PAIRS))
    assert table.column("links").to_pylist() == out.splitlines()
    assert not list(text.glob("*.partial"))


def test_an_output_file_holds_what_would_be_printed(align, text):
    assert align("--input", "ab", "--output", "links")[:2] == (0, "")
    assert (text / "links").read_text() == align("--input", "ab", "--output", "-")[1]


def test_lines_that_cannot_be_aligned_are_empty_and_counted(align, text):
    lines = (text / "ab").read_text().splitlines()
    lines[3:3] = ["no separator", "", "a ||| " + "long " * 5000, "a ||| b ||| c", "x |||"]
    (text / "ab").write_text("\n".join([*lines, ""]) + "\n")
    code, out, err = align("--input", "ab")
    assert code == 0
    found = out.split("\n")
    assert len(found) == PAIRS + 7
    assert found[3:8] == [""] * 5
    assert found[-2] == ""
    assert found[8] != ""
    assert "line 4 left out: no separator" in err
    assert "line 6 left out: a side of more than 1,000 words" in err
    assert f"6 of {PAIRS + 6} lines left out" in err


def test_five_thousand_words_one_word_and_many_copies(align, text):
    (text / "ab").write_text("a " * 5000 + "||| " + "b " * 5000 + "\n" + "x ||| y\n")
    code, out, _ = align("--input", "ab", "--max-words", "5000")
    assert code == 0
    assert out.splitlines()[1] == "0-0"
    (text / "ab").write_text("x ||| y\n")
    assert align("--input", "ab")[1] == "0-0\n"
    (text / "ab").write_text("a b ||| c d\n" * 5000)
    code, out, err = align("--input", "ab")
    assert code == 0
    assert len(set(out.splitlines())) == 1
    assert "nan" not in err


def test_lower_case(align, text):
    _, expected, _ = align("--input", "ab")
    (text / "ab").write_text((text / "ab").read_text().replace("s1 ", "S1 ").replace("t2 ", "T2 "))
    assert align("--input", "ab", "--lowercase")[1] == expected


def test_counts_of_links(align, text):
    _, out, _ = align("--input", "ab", "--counts", "counts.parquet")
    links: Links = parse_pharaoh(out.encode())
    words = [[line.split() for line in side] for side in sentences()]
    expected = {}
    for pair, i, j in zip(links.pair_ids(), links.source, links.target, strict=True):
        key = (words[0][pair][i], words[1][pair][j])
        expected[key] = expected.get(key, 0) + 1
    table = pq.read_table(text / "counts.parquet").to_pylist()
    assert {(row["source"], row["target"]): row["count"] for row in table} == expected
    assert all(row["count"] == row["reverse_count"] for row in table)


def test_expected_counts_add_up_to_the_words_with_a_partner(align, text):
    code, out, _ = align(
        "--input", "ab", "--counts", "c.parquet", "--count-kind", "expected", "--symmetrize", "forward"
    )
    assert code == 0
    table = pq.read_table(text / "c.parquet")
    words = sum(len(line.split()) for line in sentences()[1])
    assert 0.5 * words < sum(table.column("count").to_pylist()) <= words
    assert table.column("count").to_pylist() != table.column("reverse_count").to_pylist()
    assert out == align("--input", "ab", "--symmetrize", "forward")[1]


@pytest.mark.parametrize("method", ["grow-diag-final-and", "forward"])
def test_a_saved_model_aligns_its_own_text_as_in_training(align, text, method):
    code, trained, _ = align("--input", "ab", "--model", "model", "--symmetrize", method)
    assert code == 0
    assert {path.suffix for path in (text / "model").iterdir()} == {".json", ".parquet"}
    assert align("--source", "a", "--target", "b", "--force", "model")[:2] == (0, trained)


def test_a_saved_model_aligns_other_text_with_words_it_does_not_know(align, text):
    align("--input", "ab", "--model", "model", "--lowercase")
    (text / "new").write_text("S1 s2 unknown ||| t1 T2 fremd\n\nzzz ||| yyy\n")
    code, out, err = align("--input", "new", "--force", "model", "--symmetrize", "intersection")
    assert code == 0
    assert {"0-0", "1-1"} <= set(out.splitlines()[0].split())
    assert out.splitlines()[1] == ""
    assert len(out.splitlines()) == 3
    assert "line 2 left out" in err
    (text / "new").write_text("\n\n")
    assert align("--input", "new", "--force", "model")[:2] == (0, "\n\n")


def test_a_model_of_one_direction_gives_that_one_only(align):
    align("-i", "ab", "-dov", "--model", "model")
    code, _, err = align("--input", "ab", "--force", "model", "--symmetrize", "union")
    assert code == cli.EXIT_INPUT
    assert "trained forward only" in err


def test_threads_and_memory_change_nothing(align):
    _, out, _ = align("--input", "ab")
    assert align("--input", "ab", "--threads", 1)[1] == out
    assert align("--input", "ab", "--threads", 3, "--memory", "64M")[1] == out


def test_builtin_plus_joins_what_both_directions_agree_on(align):
    code, union, _ = align("--input", "ab", "--aligner", "builtin-plus", "--symmetrize", "union")
    assert code == 0
    _, forward, _ = align("-i", "ab", "-dov", "--aligner", "builtin-plus")
    for some, every in zip(forward.splitlines(), union.splitlines(), strict=True):
        assert set(some.split()) <= set(every.split())


def test_a_word_list_as_aligner(align, text):
    (text / "words").write_text("s1\tt1\ns2\tt2\n")
    (text / "ab").write_text("s1 s3 s2 ||| t2 t9 t1\n")
    code, out, _ = align("--input", "ab", "--aligner", "dictionary", "--dictionary", "words", "--symmetrize", "union")
    assert (code, out) == (0, "0-2 2-0\n")


def test_quiet_prints_nothing_but_links(align):
    code, out, err = align("--input", "ab", "--quiet")
    assert (code, err) == (0, "")
    assert len(out.splitlines()) == PAIRS


def test_figures_of_every_iteration_are_on_standard_error(align, text):
    (text / "ab").write_text("a ||| b\n")  # soon nothing changes any more
    _, _, err = align("-i", "ab", "-dov", "-I", 9)
    assert re.findall(r"^iteration (\d)", err, re.MULTILINE) == list("123456789")
    (text / "ab").write_text("".join(f"{a} ||| {b}\n" for a, b in zip(*sentences(), strict=True)))
    _, _, err = align("-i", "ab", "-dov", "-I", 3)
    found = re.findall(
        r"iteration (\d)  forward: log-likelihood (-[\d.e+]+), perplexity ([\d.e+]+), tension ([\d.]+)", err
    )
    assert [row[0] for row in found] == ["1", "2", "3"]
    assert float(found[0][1]) < float(found[1][1]) < float(found[2][1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name the text in one way"),
        (("--source", "a"), "name the text in one way"),
        (("--source", "a", "--target", "b", "-i", "ab"), "name the text in one way"),
        (("--input", "nothing"), "nothing: there is no such file"),
        (("--source", "a", "--target", "short"), "a has 300 lines and short 2"),
        (("--input", "empty"), "the text has no line"),
        (("--input", "a"), "none of the 300 lines can be aligned"),
        (("--input", "ab", "--format", "parquet"), "needs --output"),
        (("--input", "ab", "--output", "no/where"), "there is no folder"),
        (("--input", "ab", "--output", "."), "is a folder"),
        (("--input", "ab", "--memory", "lots"), "--memory 'lots'"),
        (("--input", "ab", "--memory", "1K"), "at least 64M"),
        (("--input", "ab", "--model", "full"), "is there already"),
        (("--input", "ab", "--model", "m", "--aligner", "eflomal"), "eflomal gives no tables"),
        (("--input", "ab", "--force", "full"), "holds no model"),
        (("--input", "ab", "--force", "full", "--model", "m"), "trains nothing"),
        (("--input", "ab", "--force", "full", "-d", "-I", "3"), "leave out -I, -d"),
        (("--input", "ab", "--count-kind", "expected"), "name the file"),
        (("--input", "ab", "--aligner", "dictionary"), "needs --dictionary FILE"),
        (("--input", "ab", "--priors", "a"), "reads no --priors"),
        (("-i", "ab", "-N"), "-N is there with -d only"),
        (("-i", "ab", "-p", "table"), "use --model DIR"),
        (("--input", "ab", "-q", "1.5"), "p_null"),
    ],
)
def test_a_fault_of_the_person_is_one_message(align, text, arguments, message):
    (text / "short").write_text("x\ny\n")
    (text / "empty").write_text("")
    (text / "full").mkdir()
    code, out, err = align(*arguments)
    assert (code, out) == (cli.EXIT_INPUT, "")
    assert message in err
    assert "Traceback" not in err


def test_a_failed_run_leaves_no_output_behind(align, text):
    assert align("--input", "a", "--output", "links")[0] == cli.EXIT_INPUT
    assert not list(text.glob("links*"))


def test_a_work_folder_is_taken_up_and_emptied(align, text, monkeypatch):
    _, expected, _ = align("--input", "ab")
    work = text / "work"
    work.mkdir()
    (work / "mine").write_text("kept")
    with monkeypatch.context() as patch:
        patch.setattr("tasks.alignment.engine.em.CHECKPOINT_SECONDS", -1.0)
        patch.setattr("flows.align_display.AlignDisplay.training", _interrupt_after(3))
        code, out, err = align("--input", "ab", "--work", work)
    assert (code, out) == (cli.EXIT_INTERRUPTED, "")
    assert "goes on from the last checkpoint" in err
    code, out, err = align("--input", "ab", "--work", work)
    assert (code, out) == (0, expected)
    assert "iteration 5 " in err
    assert "iteration 2 " not in err
    assert [path.name for path in work.iterdir()] == ["mine"]


def _interrupt_after(iterations):
    def report(self, done, total, message):
        if done > iterations:
            raise KeyboardInterrupt

    return report


def test_a_work_folder_is_used_by_one_command_at_a_time(align, text):
    with work_folder(text / "work"):
        code, _, err = align("--input", "ab", "--work", "work")
    assert code == cli.EXIT_INPUT
    assert "in use by another process" in err


def test_another_text_in_the_same_work_folder_is_aligned_anew(align, text, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("tasks.alignment.engine.em.CHECKPOINT_SECONDS", -1.0)
        patch.setattr("flows.align_display.AlignDisplay.training", _interrupt_after(3))
        align("--input", "ab", "--work", "work")
    lines = (text / "ab").read_text().splitlines(keepends=True)[::-1]
    (text / "ab").write_text("".join(lines))
    assert align("--input", "ab", "--work", "work")[1] == align("--input", "ab")[1]


@pytest.fixture
def start(text):
    """Starts the command as a process of its own."""

    def run(*arguments, **options):
        command = [sys.executable, "-m", "flows.cli", "align", *arguments]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        return subprocess.Popen(
            command,
            cwd=text,
            env=environment,
            stderr=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
            **options,
        )

    return run


def test_standard_input_and_a_reader_that_stops_early(start, text):
    (text / "ab").write_text((text / "ab").read_text() * 20)
    with (text / "ab").open("rb") as file:
        process = start("-i", "-", "-dov", stdin=file, stdout=subprocess.PIPE)
    assert process.stdout is not None
    first = process.stdout.readline()
    process.stdout.close()
    errors = process.stderr.read() if process.stderr else b""
    assert process.wait(60) == 0
    assert re.fullmatch(rb"(\d+-\d+ ?)*\n", first)
    assert b"rror" not in errors


def test_an_interrupt_ends_it_without_a_traceback(start, text):
    (text / "ab").write_text((text / "ab").read_text() * 400)
    process = start("-i", "ab", "-dov", "-I", "100", stdout=subprocess.DEVNULL)
    assert process.stderr is not None
    assert any(b"iteration 2" in line for line in process.stderr)
    process.send_signal(signal.SIGINT)
    errors = process.stderr.read()
    assert process.wait(60) == cli.EXIT_INTERRUPTED, errors
    assert b"Traceback" not in errors
    assert errors.endswith(b"interrupted\n")


def test_help_is_there_without_heavy_imports():
    program = "import sys; sys.argv = ['langadapt', 'align', '--help']\nimport flows.cli\n"
    program += "try:\n    flows.cli.main()\nexcept SystemExit:\n    pass\n"
    program += "print([name for name in ('numba', 'pyarrow', 'torch', 'prefect', 'pandas') if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[]"
    assert "1000" in result.stdout


@pytest.mark.parametrize(("text", "gib"), [("4G", 4), ("1.5 GiB", 1.5), ("512m", 0.5), ("1073741824", 1), (None, None)])
def test_sizes(text, gib):
    assert memory_gib(text) == gib


def test_no_size():
    with pytest.raises(InputError, match="'4X'"):
        memory_gib("4X")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--output", "a"], "--output a is also the text that is read"),
        (["--output", "x", "--counts", "x"], "--counts x is also --output"),
        (["--counts", "x", "--model", "x"], "--model x is also --counts"),
        (["--tension", "1e9"], "tension: Input should be less than or equal to 500"),
        (["--tension", "1e-300"], "tension: Input should be greater than or equal to 0.000001"),
        (["--aligner", "dictionary", "--counts", "x", "--count-kind", "expected"], "dictionary gives links only"),
        (["--aligner", "dictionary", "-I", "3"], "--aligner dictionary does not read -I"),
        (["--aligner", "eflomal", "--model1", "-T", "3"], "--aligner eflomal does not read -T"),
        (["--model1", "--tension", "3"], "--model1 has no diagonal, which -T is about"),
        (["--model1", "-d", "-o"], "--model1 has no diagonal, which -d, -o is about"),
        (["--maximum-likelihood", "--alpha", "0.1"], "--maximum-likelihood has no Dirichlet prior, which -a is about"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_read(align, text, arguments, message):
    before = (text / "a").read_bytes()
    code, out, err = align("--source", "a", "--target", "b", *arguments)
    assert (code, out) == (2, "")
    assert message in " ".join(err.split())
    assert (text / "a").read_bytes() == before
    assert not (text / "x").exists()


@pytest.mark.parametrize("tension", ["1e-6", "500"])
def test_links_at_the_ends_of_the_range_of_tensions(align, tension):
    code, out, err = align("--input", "ab", "--tension", tension)
    assert code == 0
    assert "nan" not in err
    assert sum(map(bool, out.splitlines())) > PAIRS / 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "builtin, diagonal prior, variational Bayes, 5 iterations, links: grow-diag-final-and"),
        (("-r",), "builtin, IBM Model 1, maximum likelihood, 5 iterations, links: reverse"),
        (("-d", "-v", "-I", "2"), "builtin, diagonal prior, variational Bayes, 2 iterations, links: forward"),
    ],
)
def test_what_is_done_is_told(align, arguments, told):
    code, _, err = align("--input", "ab", *arguments)
    assert code == 0
    assert told in err.splitlines()


def test_a_model_with_a_file_of_another_is_refused(align, text):
    align("--input", "ab", "--model", "m", "--quiet")
    (text / "m" / "translation.parquet").write_bytes(b"PAR1")
    code, _, err = align("--input", "ab", "--force", "m")
    assert code == 2
    assert "translation.parquet is not the file that was saved with this model" in " ".join(err.split())
