"""What the alignment benchmark runs in a process of its own: aligners that are no command, and alignment from arrays.

python -m benchmarks.alignment_child systran SOURCE TARGET LINKS
python -m benchmarks.alignment_child fast_align SOURCE TARGET LINKS
python -m benchmarks.alignment_child arrays ALIGNER SOURCE TARGET THREADS MEMORY RESULT
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa

from configs.schema import AlignmentConfig
from tasks.alignment.aligner import Job
from tasks.alignment.backends.fast_align import find_binary
from tasks.alignment.backends.registry import align
from tasks.alignment.bitext import Bitext
from tasks.alignment.links import sort_links
from tasks.alignment.machine import GIB, memory_budget
from tasks.alignment.pharaoh import format_pharaoh, parse_pharaoh
from tasks.alignment.plain_text import TextInput, read_text
from tasks.alignment.symmetrization import symmetrize

BATCH_PAIRS = 10_000
METHOD = "grow-diag-final-and"
FAST_ALIGN_OPTIONS = ("-d", "-o", "-v")
SYSTRAN_OPTIONS = {"favor_diagonal": True, "optimize_tension": True, "variational_bayes": True}


def write_joint(source: Path, target: Path, path: Path) -> None:
    """Write `source ||| target`, a pair a line."""
    with source.open() as first, target.open() as second, path.open("w") as joint:
        joint.writelines(f"{a.rstrip()} ||| {b.rstrip()}\n" for a, b in zip(first, second, strict=True))


def run_systran(source: Path, target: Path, links: Path) -> None:
    """Train both directions, then join them as systran-align does it."""
    import systran_align

    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        joint, forward, backward = (str(Path(folder) / name) for name in ("joint", "forward", "backward"))
        write_joint(source, target, Path(joint))
        systran_align.generate_alignment_probabilities(joint, forward, backward, **SYSTRAN_OPTIONS)
        aligner = systran_align.Aligner(forward, backward)
        output = stack.enter_context(links.open("w"))
        first, second = (stack.enter_context(path.open()) for path in (source, target))
        for a, b in zip(_batches(first), _batches(second), strict=True):
            for found in aligner.align_batch(a, b):
                output.write(" ".join([f"{i}-{j}" for i, j in found["alignments"]]) + "\n")


def _batches(lines: Iterator[str]) -> Iterator[list[list[str]]]:
    while batch := list(islice(lines, BATCH_PAIRS)):
        yield [line.split() for line in batch]


def run_fast_align(source: Path, target: Path, links: Path) -> None:
    """Both directions one after the other, joined by atools where it stands beside the program, else here."""
    binary = find_binary()
    if binary is None:
        raise FileNotFoundError("fast_align is not on PATH and LANGADAPT_FAST_ALIGN names none")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_joint(source, target, folder / "joint")
        for direction, more in (("forward", ()), ("reverse", ("-r",))):
            command = [str(binary), "-i", str(folder / "joint"), *FAST_ALIGN_OPTIONS, *more]
            with (folder / direction).open("wb") as output:
                subprocess.run(command, check=True, stdout=output)
        atools = shutil.which("atools", path=str(binary.parent))
        if atools is not None:
            command = [atools, "-i", str(folder / "forward"), "-j", str(folder / "reverse"), "-c", METHOD]
            with links.open("wb") as output:
                subprocess.run(command, check=True, stdout=output)
            return
        both = [sort_links(parse_pharaoh((folder / name).read_bytes())) for name in ("forward", "reverse")]
    links.write_text("\n".join(format_pharaoh(symmetrize(both[0], both[1], METHOD)).to_pylist()) + "\n")


def job(words: Bitext, texts: tuple[pa.StringArray, pa.StringArray], config: AlignmentConfig, work: Path) -> Job:
    """A job for both directions, whose units are the words."""
    corpus = np.zeros(len(words), dtype=np.int32)
    return Job(words, words, texts, corpus, ("forward", "reverse"), config, work, {})


def published_settings(aligner: str) -> AlignmentConfig:
    """The settings of fast_align's options -d -o -v."""
    return AlignmentConfig.model_validate({"aligner": aligner, "variational_bayes": True, "optimize_tension": True})


def run_arrays(aligner: str, paths: tuple[Path, Path], threads: int, memory: float, result: Path) -> None:
    """Align from arrays of word numbers, after a warm-up on a few pairs, and write the seconds."""
    config = published_settings(aligner).model_copy(update={"threads": threads, "memory_gib": memory or None})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = read_text(TextInput(source=str(paths[0]), target=str(paths[1])), folder / "text", threads=threads)
        few, whole = folder / "few", folder / "all"
        few.mkdir()
        whole.mkdir()
        align(job(text.bitext.part(0, 100), text.words, config, few))
        started, used = time.perf_counter(), time.process_time()
        align(job(text.bitext, text.words, config, whole))
        figures = {"seconds": time.perf_counter() - started, "processor_seconds": time.process_time() - used}
    result.write_text(json.dumps({**figures, "budget_gib": memory_budget(memory or None) / GIB}))


def main(kind: str, *arguments: str) -> None:
    """Do what the arguments say."""
    if kind == "arrays":
        aligner, source, target, threads, memory, result = arguments
        run_arrays(aligner, (Path(source), Path(target)), int(threads), float(memory), Path(result))
    else:
        {"systran": run_systran, "fast_align": run_fast_align}[kind](*map(Path, arguments))


if __name__ == "__main__":
    main(*sys.argv[1:])
