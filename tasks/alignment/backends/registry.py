"""The aligners by name: which are there, whether one can do what a configuration asks, and what identifies it.

A new aligner is a file with a `BACKEND` (see `declaration.Backend`), a line in `MODULES` and its name in the
configuration's `Aligner`. Everything here is light to import; only `align` loads an aligner's libraries.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from configs.schema import AlignmentConfig
from storage.keys import file_digest
from tasks.alignment.backends.declaration import Backend
from tasks.contract import InputError

if TYPE_CHECKING:
    from tasks.alignment.aligner import Aligned, Job

MODULES: Mapping[str, str] = {
    "builtin": "tasks.alignment.backends.builtin",
    "builtin-plus": "tasks.alignment.backends.builtin_plus",
    "fast_align": "tasks.alignment.backends.fast_align",
    "eflomal": "tasks.alignment.backends.eflomal",
    "dictionary": "tasks.alignment.backends.dictionary",
}


@dataclass(frozen=True)
class Availability:
    """Whether an aligner can be used on this machine.

    Attributes:
        name: as in the configuration.
        available: whether it can run.
        version: what runs, where it can be told.
        path: its program; "" for the package's own.
        missing: what is missing and how to get it; "" where nothing is.
        expected_counts: whether it gives expected counts.
        deterministic: whether the same input gives the same links.
    """

    name: str
    available: bool
    version: str
    path: str
    missing: str
    expected_counts: bool
    deterministic: bool


def backend(name: str) -> Backend:
    """The declaration of the aligner `name`.

    Raises:
        KeyError: no aligner has that name.
    """
    declared = importlib.import_module(MODULES[name]).BACKEND
    if not isinstance(declared, Backend):
        raise TypeError(f"{MODULES[name]}.BACKEND declares no aligner")
    return declared


def availability() -> tuple[Availability, ...]:
    """Every aligner, in the order of `MODULES`. Starts no program."""
    return tuple(_availability(name, backend(name)) for name in MODULES)


def _availability(name: str, declared: Backend) -> Availability:
    path, missing = None, ""
    if declared.program is not None:
        try:
            path = declared.program()
            missing = "" if path is not None else declared.install
        except InputError as error:
            missing = str(error)
    there = declared.program is None or path is not None
    return Availability(
        name=name,
        available=there,
        version=declared.version() if there else "",
        path="" if path is None else str(path),
        missing=missing,
        expected_counts=declared.gives_expected_counts,
        deterministic=declared.deterministic,
    )


def check(config: AlignmentConfig) -> None:
    """Whether the aligner can do what is asked; to be called before anything runs.

    Raises:
        InputError: it gives no expected counts but they are asked for, its program is not there, a file that it needs
            is not named, or a file is named that it does not read.
    """
    declared = backend(config.aligner)
    if config.counts == "expected" and not declared.gives_expected_counts:
        able = [name for name in MODULES if backend(name).gives_expected_counts]
        raise InputError(
            f"alignment.aligner is {config.aligner!r} and alignment.counts 'expected': it gives links only; set "
            f"alignment.counts: links, or alignment.aligner: {' or '.join(able)}"
        )
    for name, needed in declared.files:
        if needed and getattr(config, name) is None:
            raise InputError(
                f"alignment.aligner is {config.aligner!r}, but alignment.{name} names no file: "
                "give its path below the data folder"
            )
    for other in MODULES:
        for name, _ in backend(other).files:
            if getattr(config, name) is not None and name not in dict(declared.files):
                raise InputError(
                    f"alignment.{name} is {getattr(config, name)!r}, which alignment.aligner {config.aligner!r} does "
                    f"not read: leave it out, or set alignment.aligner: {other}"
                )
    if declared.program is not None and declared.program() is None:
        raise InputError(f"alignment.aligner is {config.aligner!r}, but its program is not there: {declared.install}")


def program(config: AlignmentConfig) -> Path | None:
    """The program that the aligner runs; None for the package's own.

    Raises:
        InputError: it is not there (see `check`).
    """
    check(config)
    declared = backend(config.aligner)
    return None if declared.program is None else declared.program()


def identity(config: AlignmentConfig) -> str:
    """SHA-256 of the aligner's program, part of the key of an alignment made with it; "" for the package's own.

    Raises:
        InputError: it is not there (see `check`).
    """
    path = program(config)
    return "" if path is None else file_digest(path)


def files(config: AlignmentConfig) -> dict[str, str]:
    """The files that the aligner reads, by name ('dictionary', 'priors'), as the configuration names them."""
    named = {name: getattr(config, name) for name, _ in backend(config.aligner).files}
    return {name: path for name, path in named.items() if path is not None}


def align(job: "Job") -> "Aligned":
    """Align with the aligner of `job.config`."""
    return backend(job.config.aligner).align(job)
