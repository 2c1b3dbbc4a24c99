"""What a person sees while a run goes on: a progress bar in a terminal, log lines elsewhere."""

import logging
import time
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from flows.execution import NodeOutcome
from flows.graph import Node
from flows.plan import PlannedNode
from tasks.durations import in_words

logger = logging.getLogger(__name__)
LOG_SECONDS = 10.0


class Display(Protocol):
    """Told what happens in a run."""

    def plan(self, plan: Sequence[PlannedNode]) -> None:
        """The plan, before anything runs."""

    def start(self, node: Node) -> None:
        """`node` is about to be looked up or built."""

    def progress(self, node: Node, done: float, total: float | None, unit: str, message: str = "") -> None:
        """How far `node` is."""

    def line(self, node: Node, text: str) -> None:
        """A line that an isolated stage printed or logged."""

    def note(self, node: Node, text: str, warning: bool) -> None:
        """What a person should know of `node`: that it waits for another process, that its artifact was damaged."""

    def finish(self, outcome: NodeOutcome) -> None:
        """A node is done."""

    def fail(self, node: Node) -> None:
        """`node` failed or was interrupted."""


Logger = logging.Logger | logging.LoggerAdapter[Any]


class LogDisplay:
    """Log lines on `log`; progress at most every `LOG_SECONDS`."""

    def __init__(self, log: Logger = logger) -> None:
        self._log = log
        self._last = 0.0

    def plan(self, plan: Sequence[PlannedNode]) -> None:
        """See `Display`."""
        for item in plan:
            self._log.info("plan: %-24s %-8s %s %s", item.node.label, item.status, item.cost, "; ".join(item.reasons))

    def start(self, node: Node) -> None:
        """See `Display`."""
        self._last = time.monotonic()

    def progress(self, node: Node, done: float, total: float | None, unit: str, message: str = "") -> None:
        """See `Display`."""
        now = time.monotonic()
        if now - self._last >= LOG_SECONDS:
            self._last = now
            self._log.info("%s: %s", node.label, progress_text(done, total, unit, message))

    def line(self, node: Node, text: str) -> None:
        """See `Display`."""
        self._log.info("%s: %s", node.label, text)

    def note(self, node: Node, text: str, warning: bool) -> None:
        """See `Display`."""
        self._log.log(logging.WARNING if warning else logging.INFO, "%s: %s", node.label, text)

    def finish(self, outcome: NodeOutcome) -> None:
        """See `Display`."""
        self._log.info("%s: %s in %.1f s", outcome.label, outcome.status, outcome.seconds)

    def fail(self, node: Node) -> None:
        """See `Display`."""
        self._log.error("%s: failed", node.label)


class ConsoleDisplay:
    """A line per finished stage, and a bar for the running one where the console is a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._last = 0.0

    def plan(self, plan: Sequence[PlannedNode]) -> None:
        """See `Display`."""
        self._console.print(plan_table(plan))
        known = [item.seconds for item in plan if item.status != "cached" and item.seconds is not None]
        if known:
            self._console.print(f"About {in_words(sum(known))} by earlier runs of these stages, whatever their models.")

    def start(self, node: Node) -> None:
        """See `Display`."""
        self._last = time.monotonic()
        if self._console.is_terminal:
            columns = (
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(24),
                TextColumn("{task.fields[text]}"),
            )
            self._bar = Progress(*columns, TimeElapsedColumn(), console=self._console, transient=True)
            self._task = self._bar.add_task(node.label, total=None, text="")
            self._bar.start()

    def progress(self, node: Node, done: float, total: float | None, unit: str, message: str = "") -> None:
        """See `Display`."""
        text = progress_text(done, total, unit, message)
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done, total=total, text=text)
        elif time.monotonic() - self._last >= LOG_SECONDS:
            self._last = time.monotonic()
            self._console.print(f"  {node.label}: {text}", markup=False, highlight=False)

    def line(self, node: Node, text: str) -> None:
        """See `Display`."""
        logger.debug("%s: %s", node.label, text)

    def note(self, node: Node, text: str, warning: bool) -> None:
        """See `Display`."""
        self._console.print(
            f"  {node.label}: {text}", style="yellow" if warning else None, markup=False, soft_wrap=True
        )

    def finish(self, outcome: NodeOutcome) -> None:
        """See `Display`."""
        self._close()
        colour = "cyan" if outcome.status == "Cached" else "green"
        status = f"[{colour}]{outcome.status:<10}[/]"
        self._console.print(f"{status} {outcome.label:<28} {outcome.seconds:>7.1f} s  {outcome.artifact.key[:12]}")

    def fail(self, node: Node) -> None:
        """See `Display`."""
        self._close()
        self._console.print(f"[red]Failed    [/] {node.label}")

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


_current: ContextVar[Display | None] = ContextVar("langadapt_display", default=None)


def current_display(log: Logger = logger) -> Display:
    """The display set with `use_display` in this context, else a `LogDisplay` on `log`."""
    return _current.get() or LogDisplay(log)


def use_display(display: Display) -> None:
    """Show runs of this context on `display`."""
    _current.set(display)


def progress_text(done: float, total: float | None, unit: str, message: str) -> str:
    """For instance '120/400 steps, loss 3.21'."""
    amount = f"{done:,.0f}" if total is None else f"{done:,.0f}/{total:,.0f}"
    return ", ".join(part for part in (f"{amount} {unit}", message) if part)


def plan_table(plan: Sequence[PlannedNode]) -> Table:
    """The plan as a table for a terminal."""
    table = Table(title="Plan", title_justify="left", box=None, pad_edge=False)
    table.add_column("stage", no_wrap=True)
    table.add_column("")
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("work")
    table.add_column("why")
    colours = {"cached": "cyan", "run": "yellow", "rerun": "yellow", "depends": "white"}
    for item in plan:
        seconds = "" if item.seconds is None else in_words(item.seconds)
        status = f"[{colours[item.status]}]{item.status}[/]"
        table.add_row(item.node.label, status, seconds, item.cost, "; ".join(item.reasons[:3]))
    return table
