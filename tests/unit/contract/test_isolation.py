import os
import signal
import subprocess
import sys

import psutil
import pytest

from configs.schema import BitextConfig, CorpusConfig, FileSource, SampleConfig
from tasks.contract import STAGE_MODULES, InputError, StageContext, load_stage
from tasks.isolation import StageFailed, run_in_child, stop


def context(tmp_path, config, progress=lambda *figures: None, **files):
    out, work = tmp_path / "out", tmp_path / "work"
    out.mkdir()
    work.mkdir()
    return StageContext(config=config, inputs={}, files=files, out=out, work=work, progress=progress)


def test_every_stage_is_declared_under_its_name_without_heavy_imports():
    code = (
        "import sys; from tasks.contract import STAGE_MODULES, load_stage\n"
        "print([load_stage(name).version for name in STAGE_MODULES])\n"
        "heavy = {'torch', 'transformers', 'numba', 'duckdb', 'datasets', 'prefect', 'pyarrow', 'sentencepiece'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1] == "[]"
    assert {load_stage(name).name for name in STAGE_MODULES} == set(STAGE_MODULES)


def test_a_child_gives_the_result_and_the_progress_of_its_stage(tmp_path):
    seen = []
    given = context(tmp_path, SampleConfig(sentences=50), lambda *figures: seen.append(figures))
    result = run_in_child("sample", given, lambda line: None)
    direct = load_stage("sample").run(StageContext(SampleConfig(sentences=50), {}, tmp_path / "work", tmp_path))
    assert result.summary.pop("peak_memory_bytes") > 1 << 20
    assert result.summary == direct.summary
    assert (given.out / "pairs.parquet").read_bytes() == (tmp_path / "work" / "pairs.parquet").read_bytes()
    assert seen[-1][0] == seen[-1][1] == 50


def test_a_fault_of_the_input_comes_back_as_one(tmp_path):
    path = tmp_path / "empty.txt"
    path.write_text("")
    config = CorpusConfig(sources=(FileSource(name="news", path="empty.txt", format="txt"),))
    with pytest.raises(InputError, match="news"):
        run_in_child("corpus", context(tmp_path, config, news=path), lambda line: None)


def test_another_failure_comes_back_with_its_trace(tmp_path):
    given = context(tmp_path, SampleConfig(sentences=5))
    given.out.rmdir()
    with pytest.raises(StageFailed, match="Traceback"):
        run_in_child("sample", given, lambda line: None)


def test_a_killed_child_is_a_failure_that_says_so(tmp_path):
    def kill(*figures):
        for child in psutil.Process().children():
            child.send_signal(signal.SIGKILL)

    with pytest.raises(StageFailed, match="killed by SIGKILL"):
        run_in_child("sample", context(tmp_path, SampleConfig(sentences=500_000), kill), lambda line: None)


def test_an_interrupt_of_the_parent_ends_the_child(tmp_path):
    class Interrupt(BaseException):
        pass

    def interrupt(line):
        raise Interrupt

    path = tmp_path / "pairs.tsv"
    path.write_text("src\ttgt\n")
    source = FileSource(name="pairs", path="pairs.tsv", format="tsv")
    before = set(psutil.Process().children())
    with pytest.raises((Interrupt, InputError)):
        run_in_child("bitext", context(tmp_path, BitextConfig(sources=(source,)), pairs=path), interrupt)
    assert set(psutil.Process().children()) <= before


def test_stop_ends_a_process_that_ignores_the_request():
    code = (
        "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); signal.pause()"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert child.stdout.readline() == "ready\n"
    stop(child, grace=0.1)
    child.stdout.close()
    assert child.returncode == -signal.SIGKILL


def test_a_child_ends_with_its_parent(tmp_path):
    out, work = tmp_path / "out", tmp_path / "work"
    out.mkdir()
    work.mkdir()
    code = (
        "import sys; from pathlib import Path; from configs.schema import SampleConfig\n"
        "from tasks.contract import StageContext; from tasks.isolation import run_in_child\n"
        "import psutil\n"
        "def tell(*figures): print(psutil.Process().children()[0].pid, flush=True)\n"
        f"folders = Path({str(out)!r}), Path({str(work)!r})\n"
        "context = StageContext(SampleConfig(sentences=5_000_000), {}, *folders, {}, tell)\n"
        "run_in_child('sample', context, lambda line: None)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    child = psutil.Process(int(parent.stdout.readline()))
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    _, alive = psutil.wait_procs([child], timeout=20)
    assert not alive


def test_a_folder_named_tasks_where_the_command_runs_is_not_taken_for_ours(tmp_path, monkeypatch):
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "__init__.py").write_text("raise SystemExit('not ours')")
    monkeypatch.chdir(tmp_path)
    result = run_in_child("sample", context(tmp_path, SampleConfig(sentences=5)), lambda line: None)
    assert result.summary["pairs"] == 5
