"""What a section of the alignment benchmark gives: tables, figures and bars; and the machine it ran on."""

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil
from rich.table import Table

Cell = str | int | float | None


@dataclass(frozen=True)
class Bar:
    """A figure and what it must be.

    Attributes:
        name: what is measured.
        value: measured.
        limit: the bar.
        at_least: the value must reach the bar; False: must not exceed it.
        disturbed: other processes took the processors that it needed, so it is neither met nor missed.
    """

    name: str
    value: float
    limit: float
    at_least: bool = True
    disturbed: bool = False

    @property
    def passed(self) -> bool:
        """Whether the figure is as it must be (NaN is not, and a disturbed one is not)."""
        if self.disturbed:
            return False
        return self.value >= self.limit if self.at_least else self.value <= self.limit


@dataclass
class Section:
    """Results of one section.

    Attributes:
        name: its name.
        tables: to print.
        figures: for the JSON file.
        bars: to check.
        notes: sentences printed below the tables.
    """

    name: str
    tables: list[Table] = field(default_factory=list)
    figures: list[dict[str, Any]] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Table:
    """A table; whatever is no text stands at the right."""
    result = Table(title=title, title_justify="left", min_width=len(title))
    for number, column in enumerate(columns):
        text = all(isinstance(row[number], str) for row in rows)
        result.add_column(column, justify="left" if text and number == 0 else "right", overflow="fold")
    for row in rows:
        result.add_row(*[shown(cell) for cell in row])
    return result


def shown(cell: Cell) -> str:
    """A value as the tables show it."""
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 1000 else f"{cell:.2f}" if abs(cell) >= 0.1 or not cell else f"{cell:.2g}"
    return f"{cell:,}" if isinstance(cell, int) else cell


def verdict(bar: Bar) -> str:
    """One word on a bar."""
    return "DISTURBED" if bar.disturbed else "met" if bar.passed else "MISSED"


def bar_table(bars: Sequence[Bar]) -> Table:
    """All bars, the missed ones first."""
    rows = [
        [verdict(bar), bar.name, bar.value, f"{'>=' if bar.at_least else '<='} {shown(bar.limit)}"]
        for bar in sorted(bars, key=lambda bar: bar.passed)
    ]
    return table("Bars", ("", "what", "measured", "bar"), rows)


def machine() -> dict[str, Any]:
    """Processor, memory, load and versions."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "processor": processor(),
        "processors": usable,
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "load_before": [round(value, 2) for value in os.getloadavg()],
        "system": platform.platform(),
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in ("numba", "numpy", "pyarrow")},
    }


def processor() -> str:
    """Name of the processor."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
