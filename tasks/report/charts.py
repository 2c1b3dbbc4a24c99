"""The charts of the page, from the report's figures."""

from collections.abc import Sequence

from markupsafe import Markup

from tasks.report.data import Row
from tasks.report.display import count, number, percent, visible
from tasks.report.svg import COLOURS, NARROW, Bar, Cloud, Series, bar_chart, line_chart, scatter_chart


def loss_charts(losses: Sequence[Row]) -> list[Row]:
    """One chart for the phases of the adaptation, one after the other, and one for the source model's pretraining."""
    charts = []
    for title, chosen in (
        ("Adaptation", [row for row in losses if not row["node"].startswith("source.")]),
        ("Pretraining of the source model", [row for row in losses if row["node"].startswith("source.")]),
    ):
        if chosen:
            drawing = line_chart(_end_to_end(chosen), "optimizer step", "loss (nats/token)", f"{title}: training loss")
            charts.append({"title": title, "drawing": drawing})
    return charts


def _end_to_end(losses: Sequence[Row]) -> list[Series]:
    series, start = [], 0
    for row in losses:
        points = [(start + point["step"], point["loss"]) for point in row["points"] if point["loss"] is not None]
        series.append(Series(row["label"] + (f" ({row['detail']})" if row["detail"] else ""), points))
        start += row["points"][-1]["step"]
    return series


def entropy_chart(mapping: Row) -> Markup:
    """Rows of the mapping by entropy."""
    bars = [
        Bar(
            f"{row['low']:g}–{row['high']:g}",
            row["rows"],
            f"{row['low']:g} to {row['high']:g} nats: {count(row['rows'])} rows, "
            f"{percent(row['frequency_share'])} of the text",
        )
        for row in mapping["entropy"]
    ]
    return bar_chart(bars, "entropy of the row (nats)", "rows", "Rows of the mapping by entropy", NARROW)


def embeddings_chart(embeddings: Row) -> Markup:
    """Old and new tokens on the principal plane of their embeddings; new ones by origin, most frequent origin first.

    Origins beyond the colours there are share the last one.
    """
    groups: dict[str, list[tuple[float, float, str]]] = {}
    texts: dict[str, int] = {}
    for row in embeddings["points"]:
        name = "source tokens" if row["side"] == "source" else f"new: {row['origin']}".replace("_", " ")
        groups.setdefault(name, []).append((row["x"], row["y"], visible(row["token"])))
        texts[name] = texts.get(name, 0) + (row["frequency"] or 0)
    new = sorted((name for name in groups if name != "source tokens"), key=lambda name: (-texts[name], name))
    room = COLOURS - 1
    clouds = [Cloud("source tokens", groups.get("source tokens", []))]
    clouds += [Cloud(name, groups[name]) for name in new[: room - 1]]
    rest = [point for name in new[room - 1 :] for point in groups[name]]
    if rest:
        clouds.append(Cloud(new[room - 1] if len(new) == room else "new: other origins", rest))
    shares = [f" ({percent(share)} of the variance)" for share in embeddings["variance"] or []] or ["", ""]
    labels = (f"first principal axis{shares[0]}", f"second{shares[1]}")
    return scatter_chart(clouds, *labels, "Source and new tokens by their input embeddings")


def perplexity_chart(alignment: Row) -> Markup:
    """Perplexity of the alignment by iteration, one line a direction.

    The first iteration, which starts from equal probabilities and would dwarf the others, is only in the table.
    """
    series = []
    for direction in dict.fromkeys(row["direction"] for row in alignment["iterations"]):
        rows = [row for row in alignment["iterations"] if row["direction"] == direction]
        points = [(row["iteration"], row["perplexity"]) for row in rows[1:] if row["perplexity"] is not None]
        series.append(Series(direction, points))
    return line_chart(series, "iteration", "perplexity", "Alignment perplexity by iteration", NARROW)


def bits_chart(results: Sequence[Row]) -> Markup:
    """Bits per byte of each model."""
    bars = [
        Bar(
            row["model"].partition(" (")[0],
            row["value"],
            f"{row['model']}: {number(row['value'])} bits/byte",
            number(row["value"]),
        )
        for row in results
        if row["metric"] == "bits_per_byte" and row["value"] is not None
    ]
    return bar_chart(bars, "model", "bits per byte", "Bits per byte by model")
