"""Initialisers: speed and memory against straightforward Python loops, in the same run.

A gate with --check (exits 1 unless every bar is met). Sections:
  apply   mapping 50,000 x 32,000 times a table of 4,096 columns;
  align   Align over 30,000 sentences;
  counts  trans-tokenization from token counts to the mapping, 50,000 tokens, 40 % of them without counts;
  focus   FOCUS, 32,000 shared and 50,000 new tokens, 300 dimensions;
  clp     CLP, the same;
  clp-drop  the same with negative cosines left out, which writes the cosines out.
Each runs in a process of its own on two processors. The loop does a sample (its share is shown) and is scaled up; its
rows are compared with ours. Vocabularies, counts and text are made up (benchmarks/embeddings_inputs.py).
Trap: on processors that others use, seconds say nothing: such a bar is DISTURBED, neither met nor missed.

    python -m benchmarks.embeddings [SECTION ...] [--check] [--scale 0.1] [--json FILE]
"""

import argparse
import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.alignment_results import machine
from benchmarks.measured_child import Measured, measure, processors

THREADS = 2
GIB = 2**30
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Bar:
    """What a section must keep to: seconds, and GiB of the whole process where there is a bar on memory."""

    seconds: float
    gib: float | None = None


BARS = {
    "apply": Bar(10, 3), "align": Bar(20), "counts": Bar(5), "focus": Bar(60), "clp": Bar(60),
    "clp-drop": Bar(60),
}  # fmt: skip


def run(section: str, scale: float) -> tuple[dict[str, float], Measured]:
    """The section's figures and those of its process."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "figures.json"
        command = [sys.executable, "-m", "benchmarks.embeddings_child", section, str(out), str(scale), str(THREADS)]
        measured = measure(command, THREADS)
        return json.loads(out.read_text()), measured


def judged(section: str, figures: dict[str, float], measured: Measured) -> str:
    """The verdict on a section."""
    bar = BARS[section]
    if figures["worst"] > TOLERANCE:
        return "WRONG"
    if bar.gib is not None and measured.peak_bytes > bar.gib * GIB:
        return "MISSED (memory)"
    if figures["seconds"] <= bar.seconds:
        return "met"
    return "DISTURBED" if measured.disturbed(THREADS, len(processors(1024)) or THREADS) else "MISSED"


def main() -> int:
    """Run the sections and print them."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        prog="python -m benchmarks.embeddings",
    )
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"{', '.join(BARS)}; none: all")
    parser.add_argument("--scale", type=float, default=1.0, help="sizes times this, to try it out [1]")
    parser.add_argument("--check", action="store_true", help="exit 1 unless every bar is met")
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    if unknown := set(options.sections) - set(BARS):
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(BARS)}")
    table = Table("section", "seconds", "bar", "loop, scaled up", "ratio", "peak GiB", "bar", "worst difference", "")
    found, verdicts = {}, []
    for section in options.sections or BARS:
        figures, measured = run(section, options.scale)
        loop, bar = figures["loop_seconds"] / figures["sample"], BARS[section]
        verdicts.append(judged(section, figures, measured))
        found[section] = {**figures, "loop_scaled": loop, "peak_bytes": measured.peak_bytes, "others": measured.others}
        table.add_row(
            section, f"{figures['seconds']:.2f}", f"{bar.seconds:g}", f"{loop:.1f} ({figures['sample']:.2%})",
            f"{loop / figures['seconds']:.0f}x", f"{measured.peak_bytes / GIB:.2f}",
            "" if bar.gib is None else f"{bar.gib:g}", f"{figures['worst']:.1e}", verdicts[-1],
        )  # fmt: skip
    console = Console(width=140)
    console.print(table)
    console.print(machine())
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    return 1 if options.check and any(verdict != "met" for verdict in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
