"""What an aligner says of itself. Light to import: a plan reads the declarations of all of them."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.contract import InputError

if TYPE_CHECKING:
    from tasks.alignment.aligner import Aligned, Job


@dataclass(frozen=True)
class Backend:
    """An aligner.

    Attributes:
        align: does the work.
        version: what runs: 'built in', or a version where one can be told without starting anything.
        gives_expected_counts: whether `Aligned.expected` can be had.
        deterministic: whether the same input gives the same links.
        files: fields of `AlignmentConfig` that name a file it reads, and whether it cannot do without.
        install: how to get it, for people; "" where it is always there.
        program: finds the program that it runs; None where it runs none. Raises InputError when a variable names a
            program that is not there.
    """

    align: "Callable[[Job], Aligned]"
    version: Callable[[], str]
    gives_expected_counts: bool
    deterministic: bool = True
    files: tuple[tuple[str, bool], ...] = ()
    install: str = ""
    program: Callable[[], Path | None] | None = None


def find_program(name: str, variable: str) -> Path | None:
    """The program named by the environment variable `variable`, else `name` on PATH, else None.

    Raises:
        InputError: the variable is set but names no executable file.
    """
    named = os.environ.get(variable, "")
    if named:
        path = Path(named).expanduser()
        if not path.is_file() or not os.access(path, os.X_OK):
            raise InputError(f"{variable} is {named!r}, which is no executable file: correct it or unset it")
        return path.resolve()
    found = shutil.which(name)
    return None if found is None else Path(found).resolve()
