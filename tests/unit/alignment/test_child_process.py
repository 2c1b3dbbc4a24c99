import os
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.alignment.child_process import Program, ProgramError, run_programs


def program(tmp_path: Path, code: str, on_line: Callable[[str], None] = print, **environment: str) -> Program:
    path = tmp_path / f"program{len(list(tmp_path.iterdir()))}"
    path.write_text(f"#!{sys.executable}\n{code}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return Program([str(path)], tmp_path / f"{path.name}.out", on_line, environment)


def test_output_lines_and_environment(tmp_path: Path) -> None:
    lines: list[str] = []
    code = (
        "import os, sys\nprint('out', os.environ['COLOUR'])\nsys.stderr.write('one\\n\\ntwo \\nlast')\n"
        "sys.stderr.buffer.write(b'\\xff')"
    )
    one = program(tmp_path, code, lines.append, COLOUR="blue")
    run_programs([one])
    assert one.output.read_text() == "out blue\n"
    assert lines == ["one", "", "two", "last\ufffd"]


def test_a_program_that_cannot_be_started(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match=r"cannot start .*none"):
        run_programs([Program([str(tmp_path / "none")], tmp_path / "out", print)])


def test_a_program_that_closes_its_errors_is_waited_for(tmp_path: Path) -> None:
    one = program(tmp_path, "import os, time\nos.close(2)\ntime.sleep(0.2)\nprint('done')")
    run_programs([one])
    assert one.output.read_text() == "done\n"


@pytest.mark.skipif(sys.platform != "linux", reason="parent-death signals are Linux's")
def test_the_program_dies_with_its_parent(tmp_path: Path, ended: Callable[[Path], bool]) -> None:
    ids = tmp_path / "id"
    one = program(tmp_path, f"import os, time\nopen({str(ids)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)")
    parent = os.fork()
    if parent == 0:
        run_programs([one])
        os._exit(0)
    try:
        end = time.monotonic() + 5
        while not (ids.exists() and ids.read_text()) and time.monotonic() < end:
            time.sleep(0.02)
    finally:
        os.kill(parent, 9)
        os.waitpid(parent, 0)
    assert ended(ids)
