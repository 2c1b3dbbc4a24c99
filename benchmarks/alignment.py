"""Word alignment: accuracy, speed, memory and faithfulness of every aligner that is there, side by side in one run.

A gate with --check (exits 1 unless every bar is met). Sections:
  accuracy  alignment error rate on every gold set, by direction and by method of joining the directions;
  golden    the builtin against upstream fast_align's own output: links, likelihood, tension, Model 1 counts;
  speed     whole processes, one thread against one thread, then all processors; ratios; warm start;
  growth    the package's own aligners at growing sizes with a memory budget.
Aligners: builtin, builtin-plus, systran-align (`import systran_align`), fast_align (PATH or LANGADAPT_FAST_ALIGN),
eflomal (`eflomal-align`); those that are not there are left out. Real text, gold alignments and golden files are taken
from LANGADAPT_DATA_ROOT or ../shared/data; without them there is the bundled sample.
Trap: on processors that other processes use, seconds say nothing of threads. What everything else used meanwhile is
measured; a bar on time is not judged where less was free than the measurement's threads ("DISTURBED").

    python -m benchmarks.alignment [SECTION ...] [--check] [--json FILE]
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from benchmarks.alignment_accuracy import accuracy
from benchmarks.alignment_backends import Backend, backends, versions
from benchmarks.alignment_golden import golden
from benchmarks.alignment_results import Section, bar_table, machine, verdict
from benchmarks.alignment_speed import BUDGET_GIB, Texts, growth, speed

SECTIONS = ("accuracy", "golden", "speed", "growth")
WIDTH = 170


def arguments() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, prog="python -m benchmarks.alignment"
    )
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"{', '.join(SECTIONS)}; none: all")
    parser.add_argument("--aligners", help="names, separated by commas; default: all that are there")
    parser.add_argument(
        "--corpora", help="accuracy: regular expression of the corpora's names, such as en-fr or sample"
    )
    parser.add_argument("--sizes", default="10000,100000", help="speed: pairs [10000,100000]")
    parser.add_argument(
        "--largest", type=int, default=100_000, help="speed: most pairs for aligners of others [100000]"
    )
    parser.add_argument("--growth-sizes", default="100000,1000000,5000000", help="growth: pairs")
    parser.add_argument("--budget", type=float, default=BUDGET_GIB, help="growth: GiB [4]")
    parser.add_argument("--threads", type=int, default=0, help="accuracy of golden and growth: threads; 0: all")
    parser.add_argument("--work", type=Path, help="folder for texts (a few GB at 5 million pairs); default: temporary")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--check", action="store_true", help="exit 1 unless every bar is met")
    options = parser.parse_args()
    if unknown := set(options.sections) - set(SECTIONS):
        parser.error(f"unknown sections: {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    return options


def data_folder() -> Path | None:
    """The folder of real text, None where there is none."""
    root = Path(os.environ.get("LANGADAPT_DATA_ROOT", Path(__file__).resolve().parents[2] / "shared" / "data"))
    return root if (root / "alignments_gold").is_dir() and (root / "parallel").is_dir() else None


def chosen(names: str | None) -> dict[str, Backend]:
    """The aligners asked for that are there."""
    found = backends()
    if names is None:
        return found
    wanted = names.split(",")
    if missing := set(wanted) - set(found):
        raise SystemExit(f"not there: {', '.join(sorted(missing))}; there are {', '.join(found)}")
    return {name: found[name] for name in wanted}


def run(name: str, options: argparse.Namespace, found: dict[str, Backend], work: Path) -> Section | None:
    """One section; None where what it needs is not there."""
    data = data_folder()
    folder = None if data is None else data.parent / "golden" / "fast_align"
    folder = folder if folder is not None and folder.is_dir() else None
    if name == "accuracy":
        return accuracy(data, folder, list(found), options.corpora)
    if name == "golden":
        return None if data is None or folder is None else golden(data, folder, options.threads)
    texts = Texts(data, work)
    if name == "speed":
        return speed(texts, found, [int(size) for size in options.sizes.split(",")], options.largest)
    sizes = [int(size) for size in options.growth_sizes.split(",")]
    return growth(texts, found, sizes, options.budget, options.threads)


def main() -> int:
    """Measure, print, write, check."""
    options = arguments()
    found = chosen(options.aligners)
    console = Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False)
    about = {**machine(), "aligners": versions(found)}
    for key, value in about.items():
        console.print(f"{key}: {value}", markup=False)
    sections = []
    with tempfile.TemporaryDirectory(dir=options.work, prefix="alignment-") as work:
        for name in options.sections or SECTIONS:
            started = time.perf_counter()
            section = run(name, options, found, Path(work))
            if section is None:
                console.print(f"\n{name}: left out, there are no golden files")
                continue
            sections.append(section)
            console.rule(f"{name} ({time.perf_counter() - started:.0f} s)", align="left")
            for item in (*section.tables, *section.notes, *([bar_table(section.bars)] if section.bars else [])):
                console.print(item)
    about["load_after"] = [round(value, 2) for value in os.getloadavg()]
    console.print(f"load after: {about['load_after']}")
    if options.json is not None:
        options.json.write_text(json.dumps(result(about, sections), indent=1, ensure_ascii=False) + "\n")
    verdicts = [verdict(bar) for section in sections for bar in section.bars]
    counts = {word: verdicts.count(word) for word in ("met", "MISSED", "DISTURBED")}
    console.print(f"bars: {counts['met']} met, {counts['MISSED']} missed, {counts['DISTURBED']} not judged (disturbed)")
    return int(options.check and counts["met"] < len(verdicts))


def result(about: dict[str, object], sections: list[Section]) -> dict[str, object]:
    """All figures for a file."""
    bars = [
        {"name": bar.name, "value": bar.value, "limit": bar.limit, "at_least": bar.at_least, "verdict": verdict(bar)}
        for section in sections
        for bar in section.bars
    ]
    return {"machine": about, "sections": {section.name: section.figures for section in sections}, "bars": bars}


if __name__ == "__main__":
    sys.exit(main())
