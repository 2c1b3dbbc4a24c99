"""What orchestration costs: `langadapt run` against its stage functions in a plain loop.

Informational, and a gate with --max-percent. Both run in this order on fresh folders, on the same configuration:
  1. the loop: each stage function with its inputs' folders, nothing hashed, locked, recorded or cached;
  2. the command `langadapt run` (store, records, report; with --prefect also a flow on a temporary server), process
     start included;
  3. the command again: everything cached.
Trap: the operating system's file cache and numba's compiled kernels are warm for what runs second; a first, small
warm-up run takes care of both.

    python benchmarks/orchestration.py [--max-percent 5] [-o training.steps=100 ...]
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from configs.load import compose
from flows.graph import Node, build_graph
from flows.settings import settings
from tasks.contract import StageContext, load_stage
from tasks.isolation import run_stage

LANGUAGE, MODEL, RECIPE = "eo", "tiny-english", "trans-tokenization"
WARM_UP = (
    "corpus.sources.0.sentences=2000", "bitext.sources.0.sentences=2000", "model.corpus.sources.0.sentences=2000",
    "training.steps=4", "model.pretraining.steps=4", "tokenizer.vocab_size=500", "model.tokenizer.vocab_size=500",
    "evaluation.max_sentences=20",
)  # fmt: skip


def plain_loop(overrides: list[str], root: Path) -> float:
    """Seconds of the stage functions, one after the other, in folders under `root`."""
    run = compose(LANGUAGE, MODEL, RECIPE, overrides)
    nodes = build_graph(run, settings().data_root, root / "index")
    folders: dict[str, Path] = {}
    started = time.perf_counter()
    for node in nodes:
        folders[node.id] = run_node(node, folders, root)
    return time.perf_counter() - started


def run_node(node: Node, folders: dict[str, Path], root: Path) -> Path:
    """Run one stage function into a folder of its own."""
    out, work = root / node.id / "out", root / node.id / "work"
    out.mkdir(parents=True)
    work.mkdir()
    inputs = {name: folders[source] for name, source in node.inputs.items()}
    inputs |= {name: item.locate() for name, item in node.external.items()}
    files = {name: item.locate() for name, item in node.files.items()}
    context = StageContext(node.config, inputs, out, work, files)
    run_stage(load_stage(node.stage), context, lambda line: None)
    return out


def command(overrides: list[str], store: Path, prefect: bool) -> float:
    """Seconds of `langadapt run`, from start to end of the process."""
    options = [part for text in overrides for part in ("-o", text)]
    arguments = [sys.executable, "-m", "flows.cli", "run", LANGUAGE, "--model", MODEL, "--recipe", RECIPE, *options]
    arguments += ["--prefect"] if prefect else []
    started = time.perf_counter()
    subprocess.run(arguments, env={**os.environ, "LANGADAPT_STORE": str(store)}, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> int:
    """Measure, print, and compare with --max-percent."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--override", action="append", default=[], help="key=value, as for `langadapt run`")
    parser.add_argument("--max-percent", type=float, help="fail when orchestration costs more than this")
    parser.add_argument("--prefect", action="store_true", help="run as a flow on a temporary Prefect server")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        command(list(WARM_UP), root / "warm-up", options.prefect)
        loop = plain_loop(options.override, root / "loop")
        flow = command(options.override, root / "store", options.prefect)
        again = command(options.override, root / "store", options.prefect)
    percent = 100 * (flow / loop - 1)
    sys.stdout.write(
        f"plain loop {loop:8.1f} s\nflow       {flow:8.1f} s   {percent:+.1f} %\nagain      {again:8.1f} s\n"
    )
    return int(options.max_percent is not None and percent > options.max_percent)


if __name__ == "__main__":
    sys.exit(main())
