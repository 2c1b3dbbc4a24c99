"""Training: speed and memory against transformers.Trainer and plain ways, in the same run.

A gate with --check (exits 1 unless every bar is met). Sections:
  clm        all parameters, rows of text one after another: at least as fast as Trainer on the same rows, batch,
             optimizer and schedule, with the same losses;
  documents  30,000 short sentences packed into rows: at least 1.5 times the tokens of text a second of Trainer with
             its padding collator;
  adapter    sparse vocabulary adapters: at most 1.15 times the time of a step and 1.1 times the memory of training
             embeddings and head; dense ones beside them, at a size at which they fit;
  loss       loss and gradients of an LM head of 131,072 tokens: memory against logits of all tokens at once.
Each training is a process of its own; the ways take turns, and ratios are medians over the rounds.
Trap: on processors that others use, seconds say nothing: such a bar is DISTURBED, neither met nor missed.

    python -m benchmarks.training [SECTION ...] [--check] [--quick] [--rounds N] [--threads N] [--json FILE]
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from benchmarks.alignment import result
from benchmarks.alignment_results import Section, bar_table, machine, verdict
from benchmarks.training_loss import loss
from benchmarks.training_sections import FULL, QUICK, Size, adapter, clm, documents

SECTIONS: dict[str, Callable[[Size, Path], Section]] = {
    "clm": clm, "documents": documents, "adapter": adapter,
    "loss": lambda size, _: loss(size.loss, size.threads),
}  # fmt: skip
WIDTH = 140


def arguments() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, prog="python -m benchmarks.training"
    )
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"{', '.join(SECTIONS)}; none: all")
    parser.add_argument("--check", action="store_true", help="exit 1 unless every bar is met")
    parser.add_argument("--quick", action="store_true", help="tiny models, one round: tries the script out, no figures")
    parser.add_argument("--rounds", type=int, help=f"trainings by each way [{FULL.rounds}]")
    parser.add_argument("--threads", type=int, default=FULL.threads, help=f"processors of a training [{FULL.threads}]")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    options = parser.parse_args()
    if unknown := set(options.sections) - set(SECTIONS):
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    return options


def main() -> int:
    """Measure, print, write, check."""
    options = arguments()
    console = Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False)
    about, size = machine(), QUICK if options.quick else FULL
    size = replace(size, rounds=options.rounds or size.rounds, threads=options.threads)
    console.print(about, markup=False)
    sections = []
    for name in options.sections or SECTIONS:
        started = time.perf_counter()
        with tempfile.TemporaryDirectory(prefix="training-") as work:
            sections.append(SECTIONS[name](size, Path(work)))
        console.rule(f"{name} ({time.perf_counter() - started:.0f} s)", align="left")
        for item in (*sections[-1].tables, *sections[-1].notes):
            console.print(item)
    bars = [bar for section in sections for bar in section.bars]
    console.print(bar_table(bars))
    if options.json is not None:
        options.json.write_text(json.dumps(result(about, sections), indent=1) + "\n")
    return int(options.check and any(verdict(bar) != "met" for bar in bars))


if __name__ == "__main__":
    sys.exit(main())
