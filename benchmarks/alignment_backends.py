"""The aligners of the alignment benchmark: which are there, their commands, and their links for a corpus."""

import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pyarrow as pa

from benchmarks.alignment_child import METHOD, job, published_settings, run_systran
from benchmarks.alignment_corpora import GoldCorpus, bitext_of, vocabulary
from tasks.alignment.aligner import offsets_of
from tasks.alignment.backends.fast_align import find_binary
from tasks.alignment.backends.registry import align
from tasks.alignment.links import Links, links_of_best, sort_links
from tasks.alignment.pharaoh import parse_pharaoh
from tasks.alignment.symmetrization import symmetrize

METHODS = ("forward", "reverse", "intersection", "grow-diag", "grow-diag-final", METHOD, "union")
OWN_METHOD = "own"
OWN = ("builtin", "builtin-plus")
PASSES = 5
"""Passes of fast_align's model over all cells, in each direction."""


@dataclass(frozen=True)
class Backend:
    """An aligner.

    Attributes:
        name: as in the tables.
        version: what runs.
        passes: passes over all cells in each direction; 0 where that says nothing (sampling).
        command: from (source file, target file, file for links, threads, GiB or None) to links in the file.
        joined: its method of joining the directions cannot be chosen, so accuracy has one figure.
    """

    name: str
    version: str
    passes: int
    command: Callable[[Path, Path, Path, int, float | None], list[str]]
    joined: bool = False


def backends() -> dict[str, Backend]:
    """Every aligner that is there, by name."""
    found = [Backend("builtin", "langadapt", PASSES, _own("builtin"))]
    if importlib.util.find_spec("tasks.alignment.engine.plus") is not None:
        found.append(Backend("builtin-plus", "langadapt", 0, _own("builtin-plus")))
    if importlib.util.find_spec("systran_align") is not None:
        version = f"systran-align {metadata.version('systran-align')}"
        found.append(Backend("systran", version, PASSES, _child("systran"), joined=True))
    if (binary := find_binary()) is not None:
        found.append(Backend("fast_align", str(binary), PASSES, _child("fast_align")))
    if (program := _program("eflomal-align")) is not None:
        found.append(Backend("eflomal", f"eflomal {metadata.version('eflomal')}", 0, _eflomal(program)))
    return {backend.name: backend for backend in found}


def _program(name: str) -> str | None:
    """A program on PATH or beside the interpreter."""
    return shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))


def _own(name: str) -> Callable[[Path, Path, Path, int, float | None], list[str]]:
    def command(source: Path, target: Path, links: Path, threads: int, memory: float | None) -> list[str]:
        arguments = [sys.executable, "-m", "flows.cli", "align", "--quiet", "--aligner", name]
        arguments += ["--source", str(source), "--target", str(target), "--output", str(links)]
        arguments += ["--symmetrize", METHOD, "--threads", str(threads)]
        return arguments + ([] if memory is None else ["--memory", f"{memory}G"])

    return command


def _child(name: str) -> Callable[[Path, Path, Path, int, float | None], list[str]]:
    def command(source: Path, target: Path, links: Path, threads: int, memory: float | None) -> list[str]:
        return [sys.executable, "-m", "benchmarks.alignment_child", name, str(source), str(target), str(links)]

    return command


def _eflomal(program: str) -> Callable[[Path, Path, Path, int, float | None], list[str]]:
    def command(source: Path, target: Path, links: Path, threads: int, memory: float | None) -> list[str]:
        both = ["-f", str(links), "-r", f"{links}.reverse"]
        return [program, "-s", str(source), "-t", str(target), *both, "--overwrite"]

    return command


def environment() -> dict[str, str]:
    """Variables for commands: the repository is found whatever the folder."""
    return {"PYTHONPATH": os.pathsep.join([str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")])}


def all_links(name: str, corpus: GoldCorpus) -> dict[str, Links]:
    """An aligner's links of the pairs of `corpus` that have gold links, by method."""
    with tempfile.TemporaryDirectory() as folder:
        if name == "systran":
            return {OWN_METHOD: _systran_links(corpus, Path(folder)).part(0, len(corpus.sure))}
        words = bitext_of(corpus.source, corpus.target)
        texts = pa.array(vocabulary(corpus.source)), pa.array(vocabulary(corpus.target))
        aligned = align(job(words, texts, published_settings(name), Path(folder)))
        both = [
            links_of_best(aligned.best[direction], offsets_of(words, direction), direction == "reverse").part(
                0, len(corpus.sure)
            )
            for direction in ("forward", "reverse")
        ]
        return joined(both[0], both[1])


def joined(forward: Links, reverse: Links) -> dict[str, Links]:
    """Two directions' links by every method."""
    return {method: symmetrize(forward, reverse, method) for method in METHODS}


def _systran_links(corpus: GoldCorpus, folder: Path) -> Links:
    paths = [folder / name for name in ("source", "target", "links")]
    for path, lines in zip(paths, (corpus.source, corpus.target), strict=False):
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    run_systran(*paths)
    return sort_links(parse_pharaoh(paths[2].read_bytes()))


def versions(found: Mapping[str, Backend]) -> dict[str, str]:
    """What runs, by name."""
    return {name: backend.version for name, backend in found.items()}
