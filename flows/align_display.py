"""What a person sees while text is aligned; everything goes to standard error."""

import time
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

if TYPE_CHECKING:
    from tasks.alignment.align_text import AlignTextResult
    from tasks.alignment.aligner import DirectionName, Iteration

LOG_SECONDS = 10.0


class AlignDisplay:
    """A progress bar in a terminal, a line every `LOG_SECONDS` elsewhere; figures and notes in both."""

    def __init__(self, console: Console, quiet: bool) -> None:
        """A display on `console`; `quiet`: nothing is shown."""
        self._console = console
        self._quiet = quiet
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._logged = self._started = time.monotonic()
        self._told = 0.0

    def __enter__(self) -> "AlignDisplay":
        if self._console.is_terminal and not self._quiet:
            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[figures]}"))
            self._progress = Progress(*columns, TimeElapsedColumn(), console=self._console, transient=True)
            self._task = self._progress.add_task("reading", total=None, figures="")
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def reading(self, pairs: int, share: float | None) -> None:
        """So many lines are read, this share of the input."""
        self._update("reading", share, 1.0, f"{pairs:,} lines")

    def training(self, done: float, total: float, message: str) -> None:
        """So many iterations are done; the figures of each are printed once."""
        self._update("aligning", done, total, f"iteration {min(int(done) + 1, int(total))} of {int(total)}")
        if done > self._told and "perplexity" in message:
            self._told = done
            self._print(f"iteration {done:.0f}  {message}")

    def writing(self, done: int, total: int) -> None:
        """The links of so many pairs are written."""
        self._update("writing", done, total, f"{done:,} of {total:,} pairs")

    def note(self, text: str) -> None:
        """What a person should know of the text."""
        self._print(f"note: {text}")

    def settings(self, text: str) -> None:
        """How the text is aligned."""
        self._print(text)

    def result(self, result: "AlignTextResult") -> None:
        """What came of it; a table of the iterations' figures where none have been printed."""
        if any(result.iterations.values()) and not (self._told or self._quiet):
            self._console.print(_figures_table(result.iterations))
        seconds = time.monotonic() - self._started
        self._print(
            f"{result.aligned:,} of {result.lines:,} pairs aligned in {seconds:.1f} s "
            f"({result.aligned / max(seconds, 1e-9):,.0f} pairs/s)"
            + (f"; {result.word_pairs:,} word pairs counted" if result.word_pairs else "")
        )

    def _update(self, what: str, done: float | None, total: float, figures: str) -> None:
        if self._progress is not None and self._task is not None:
            known = None if done is None else total
            self._progress.update(self._task, description=what, completed=done or 0, total=known, figures=figures)
        elif time.monotonic() - self._logged >= LOG_SECONDS:
            self._logged = time.monotonic()
            self._print(f"{what}: {figures}")

    def _print(self, text: str) -> None:
        if not self._quiet:
            self._console.print(text, markup=False, soft_wrap=True)


def _figures_table(iterations: Mapping["DirectionName", tuple["Iteration", ...]]) -> Table:
    """The figures of all passes, as fast_align reports them."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("direction")
    for name in ("iteration", "log-likelihood", "perplexity", "tension", "share of NULL"):
        table.add_column(name, justify="right")
    for direction, rows in iterations.items():
        for number, row in enumerate(rows, 1):
            figures = (row.log_likelihood, row.perplexity, row.tension, row.p_null)
            table.add_row(direction, str(number), *(_figure(value) for value in figures))
    return table


def _figure(value: float) -> str:
    return "" if value != value else f"{value:.6g}"
