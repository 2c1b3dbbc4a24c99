"""The charts of the page, from the report's figures."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from tasks.report.data import Row
from tasks.report.display import count, number, percent, visible
from tasks.report.svg import COLOURS, NARROW, WIDE, Bar, Cloud, Series, bar_chart, line_chart, scatter_chart


@dataclass(frozen=True)
class Curve:
    """A chart of a training.

    Attributes:
        rows: the part of the figures that holds its points.
        value: the figure that is drawn.
        label: name of the vertical axis.
        unit: what of the figure is one on that axis.
    """

    rows: str
    value: str
    label: str
    unit: float = 1.0


MAIN_CURVES = (
    Curve("points", "loss", "training loss (nats/token)"),
    Curve("validation", "bits_per_byte", "bits per byte, validation text"),
)
FURTHER_CURVES = (
    Curve("points", "learning_rate", "learning rate"),
    Curve("points", "gradient_norm", "gradient norm before clipping"),
    Curve("speed", "tokens_per_second", "tokens a second"),
    Curve("speed", "peak_memory_bytes", "peak memory (GiB)", 2**30),
)


def training_charts(losses: Sequence[Row]) -> list[Row]:
    """Charts over the tokens seen, of the adaptation's phases one after another and of the source model's pretraining.

    Returns:
        title, main (charts over the whole width) and further (the others) of each; a chart without a point is left out.
    """
    groups = []
    for title, of_source in (("Adaptation", False), ("Pretraining of the source model", True)):
        chosen = [row for row in losses if row["node"].startswith("source.") is of_source]
        main = [chart for curve in MAIN_CURVES if (chart := _curve_chart(curve, chosen, title, WIDE))]
        further = [chart for curve in FURTHER_CURVES if (chart := _curve_chart(curve, chosen, title, NARROW))]
        if main or further:
            groups.append({"title": title, "main": main, "further": further})
    return groups


def _curve_chart(curve: Curve, losses: Sequence[Row], title: str, width: int) -> Markup:
    total = sum(row["tokens"] for row in losses)
    unit, name = _token_unit(total)
    series, start = [], 0
    for row in losses:
        points = [
            ((start + point["tokens"]) / unit, point[curve.value] / curve.unit)
            for point in row[curve.rows]
            if point[curve.value] is not None
        ]
        series.append(Series(row["label"] + (f" ({row['detail']})" if row["detail"] else ""), points))
        start += row["tokens"]
    return line_chart(series, name, curve.label, f"{title}: {curve.label}", width, (0.0, total / unit))


def _token_unit(total: int) -> tuple[int, str]:
    """The unit in which `total` tokens have at least two digits, and the axis' name."""
    units = ((10**9, "billion tokens"), (10**6, "million tokens"), (10**3, "thousand tokens"))
    return next((pair for pair in units if total >= 10 * pair[0]), (1, "tokens"))


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
