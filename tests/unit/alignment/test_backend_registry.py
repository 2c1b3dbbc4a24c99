import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from configs.schema import Aligner, AlignmentConfig
from tasks.alignment.backends import registry
from tasks.contract import InputError


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Writer of programs on PATH, which has nothing else."""
    for name in ("FAST_ALIGN", "EFLOMAL"):
        monkeypatch.delenv(f"LANGADAPT_{name}", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    def write(name: str) -> Path:
        path = tmp_path / name
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
        return path

    return write


def test_the_names_are_those_of_the_configuration() -> None:
    assert tuple(registry.MODULES) == get_args(Aligner)


def test_no_library_is_loaded_to_look_at_the_aligners() -> None:
    code = (
        "import sys\nfrom configs.schema import AlignmentConfig\nfrom tasks.alignment.backends import registry\n"
        "registry.availability(); registry.identity(AlignmentConfig())\n"
        "print(sorted({'numpy', 'numba', 'pyarrow', 'torch', 'eflomal'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_availability_says_how_to_get_what_is_missing(program: Callable[[str], Path]) -> None:
    rows = {row.name: row for row in registry.availability()}
    assert rows["builtin"].available
    assert rows["builtin"].deterministic
    assert rows["builtin"].expected_counts
    assert not rows["fast_align"].available
    assert "https://github.com/clab/fast_align" in rows["fast_align"].missing
    path = program("fast_align")
    found = {row.name: row for row in registry.availability()}["fast_align"]
    assert (found.available, found.path, found.missing) == (True, str(path), "")
    assert not {row.name: row for row in registry.availability()}["eflomal"].deterministic


def test_a_variable_names_the_program(
    program: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = AlignmentConfig(aligner="fast_align")
    binary = program("fast_align")
    assert registry.program(config) == binary
    other = tmp_path / "other"
    shutil.copy(binary, other)
    monkeypatch.setenv("LANGADAPT_FAST_ALIGN", str(other))
    assert registry.program(config) == other
    monkeypatch.setenv("LANGADAPT_FAST_ALIGN", str(tmp_path / "none"))
    with pytest.raises(InputError, match=r"LANGADAPT_FAST_ALIGN is '.*none', which is no executable file"):
        registry.program(config)
    row = {row.name: row for row in registry.availability()}["fast_align"]
    assert not row.available
    assert "no executable file" in row.missing


def test_identity_is_that_of_the_programs_content(program: Callable[[str], Path]) -> None:
    config = AlignmentConfig(aligner="fast_align")
    path = program("fast_align")
    before = registry.identity(config)
    assert len(before) == 64
    path.write_text("#!/bin/sh\n# newer\n")
    assert registry.identity(config) != before
    assert registry.identity(AlignmentConfig()) == ""


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"aligner": "fast_align"}, "'fast_align', but its program is not there: build it from"),
        (
            {"aligner": "dictionary", "dictionary": "a.tsv", "counts": "expected"},
            r"gives links only; set alignment\.counts: links, or alignment\.aligner: builtin or builtin-plus",
        ),
        ({"aligner": "dictionary"}, r"alignment\.dictionary names no file"),
        ({"priors": "p"}, r"alignment\.priors is 'p', which alignment\.aligner 'builtin' does not read.*eflomal"),
        ({"aligner": "builtin-plus", "dictionary": "d"}, r"alignment\.dictionary is 'd', which .* does not read"),
    ],
)
def test_what_cannot_be_done_is_found_before_the_run(
    program: Callable[[str], Path], values: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        registry.check(AlignmentConfig(**values))


def test_files_are_those_that_are_named() -> None:
    assert registry.files(AlignmentConfig(aligner="eflomal")) == {}
    assert registry.files(AlignmentConfig(aligner="eflomal", priors="p.txt")) == {"priors": "p.txt"}
    assert registry.files(AlignmentConfig(aligner="dictionary", dictionary="d.tsv")) == {"dictionary": "d.tsv"}
