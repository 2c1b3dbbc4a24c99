"""The decorator of this package's numba kernels.

Compiled code is kept on disk: beside the module, or, where that folder cannot be written, in the person's cache folder
(numba's own rule; NUMBA_CACHE_DIR overrides both). Where none of them can be written the kernel is compiled in every
process instead of failing.

Numba does not notice a change of a kernel that lives in another file than its caller, so kernels that call each other
stand in one file.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])

logger = logging.getLogger(__name__)


def compiled(function: Function) -> Function:
    """`function` compiled by numba at its first call, without the global interpreter lock, cached on disk if possible.

    Floating-point operations keep their order and rounding (no fast-math); a division by zero gives inf or NaN, as in
    numpy, because a check in every division would keep loops from being vectorised.
    """
    options = {"nogil": True, "error_model": "numpy"}
    try:
        return cast(Function, numba.njit(cache=True, **options)(function))
    except RuntimeError as error:
        logger.warning("no folder for compiled kernels can be written, compiling in memory: %s", error)
        return cast(Function, numba.njit(**options)(function))


def _probe() -> None:
    """A kernel that is never called."""


def cache_folder() -> Path | None:
    """The folder in which this package's compiled kernels are kept; None where there is none that can be written."""
    statistics = getattr(compiled(_probe), "stats", None)
    path = getattr(statistics, "cache_path", None)
    return None if path is None else Path(path)
