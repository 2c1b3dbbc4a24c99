"""Which aligner runs: the built-in one or the upstream fast_align program."""

import hashlib
import os
import shutil
from pathlib import Path

from configs.schema import AlignmentConfig
from tasks.contract import InputError

VARIABLE = "LANGADAPT_FAST_ALIGN"


def find_binary() -> Path | None:
    """The fast_align program: the file named by LANGADAPT_FAST_ALIGN, else `fast_align` on PATH, else None.

    Raises:
        InputError: LANGADAPT_FAST_ALIGN is set but names no executable file.
    """
    named = os.environ.get(VARIABLE, "")
    if named:
        path = Path(named).expanduser()
        if not path.is_file() or not os.access(path, os.X_OK):
            raise InputError(f"{VARIABLE} is {named!r}, which is no executable file: correct it or unset it")
        return path.resolve()
    found = shutil.which("fast_align")
    return None if found is None else Path(found).resolve()


def binary_digest(path: Path) -> str:
    """SHA-256 of the program's file, hexadecimal; part of the key of an alignment made with it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def resolve_aligner(config: AlignmentConfig) -> AlignmentConfig:
    """`config` with `aligner` 'builtin' or 'fast_align', never 'auto'; to be called before a key is made of it.

    'auto' becomes 'fast_align' where the program is found and `counts` is 'links', else 'builtin' (the program does
    not give expected counts).

    Raises:
        InputError: 'fast_align' is asked for with expected counts, or is not found.
    """
    if config.aligner == "builtin":
        return config
    if config.counts == "expected":
        if config.aligner == "auto":
            return config.model_copy(update={"aligner": "builtin"})
        raise InputError(
            "alignment.aligner is 'fast_align' and alignment.counts 'expected': the program gives links only; "
            "set alignment.counts: links, or alignment.aligner: builtin"
        )
    binary = find_binary()
    if config.aligner == "auto":
        return config.model_copy(update={"aligner": "builtin" if binary is None else "fast_align"})
    if binary is None:
        raise InputError(
            f"alignment.aligner is 'fast_align', but the program is neither on PATH nor named by {VARIABLE}: "
            "install it, or set alignment.aligner: builtin"
        )
    return config
