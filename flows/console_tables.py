"""Tables for a terminal."""

from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Rows of text as a table; columns of numbers stand to the right."""
    numeric = [all(_is_number(row[column]) for row in rows) for column in range(len(header))]
    made = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(header):
        made.add_column(name, justify="right" if numeric[number] and rows else "left", no_wrap=number == 0)
    for row in rows:
        made.add_row(*row)
    return made


def cell(value: Any, limit: int = 120) -> str:
    """A value as text of at most `limit` characters, no character of which is read as markup."""
    text = f"{value:.6g}" if isinstance(value, float) else "" if value is None else str(value)
    return escape(text if len(text) <= limit else text[: limit - 1] + "…")


def share(value: float | None) -> str:
    """A share in percent; empty for None."""
    return "" if value is None else f"{100 * value:.1f} %"


def _is_number(text: str) -> bool:
    return text == "" or text.replace(",", "").replace(".", "").removesuffix(" %").lstrip("-").isdigit()
