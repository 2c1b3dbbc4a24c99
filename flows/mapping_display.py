"""What is said of a token mapping in a terminal."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from flows.console_tables import cell, share, table
from tasks.report.display import visible

_WITHOUT_SOURCES = {
    "numbers": "the initialiser gave its row as numbers",
    "drawn": "its row is drawn at random, like the source model's rows",
}


def print_overview(console: Console, found: dict[str, Any]) -> None:
    """Rows by origin, and coverage weighted by frequency."""
    console.print(f"{found['label']}: {found['tokens']:,} tokens. {found['folder']}", soft_wrap=True, markup=False)
    rows = [
        [cell(row["origin"]), f"{row['rows']:,}", share(row["share"]), share(row["frequency_share"]),
         f"{row['entropy']:.2f}"]
        for row in found["origins"]
    ]  # fmt: skip
    console.print(table("Rows by origin", ["origin", "rows", "of rows", "of the text", "entropy (nats)"], rows))
    if not found["bands"]:
        console.print("No frequencies are known: the tokenizer came without counts.")
        return
    names = [item["origin"] for item in found["bands"][0]["origins"]]
    rows = [
        [f"{row['tokens']:,}", share(row["text_share"]), share(row["covered"])]
        + [share(item["share"]) for item in row["origins"]]
        for row in found["bands"]
    ]
    header = ["most frequent tokens", "of the text", "no fallback", *names]
    console.print(table("Coverage weighted by frequency", header, rows))


def print_tokens(console: Console, rows: Sequence[dict[str, Any]]) -> None:
    """Each token with its sources."""
    for row in rows:
        shown = escape(visible(row["text"]))
        string = "" if row["token"] == row["text"] else f", in the tokenizer {escape(visible(row['token']))}"
        console.print(
            f"[bold]{shown}[/] (id {row['target_id']}{string}): {escape(row['origin'])}, "
            f"frequency {row['frequency']:,}" + (f" ({share(row['frequency_share'])})" if row["frequency"] else ""),
            soft_wrap=True,
        )
        if not row["weights"]:
            console.print(f"  no source tokens: {_WITHOUT_SOURCES[row['made']]}\n")
            continue
        cells = [[cell(visible(item["token"])), f"{item['weight']:.4f}"] for item in row["weights"]]
        number = row["sources"]
        shown = f", the strongest {len(cells):,}" if len(cells) < number else ""
        console.print(
            f"  {number:,} source {'token' if number == 1 else 'tokens'}{shown}; entropy {row['entropy']:.2f} nats"
        )
        console.print(table("", ["source token", "weight"], cells))
