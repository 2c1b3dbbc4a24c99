"""Small line and bar charts as inline SVG; colours come from the page's style sheet."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from markupsafe import Markup, escape

WIDE, NARROW, HEIGHT = 720, 460, 260
WIDEST_BAR = 84
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 14, 42
COLOURS = 6


@dataclass(frozen=True)
class Series:
    """A line: its name in the legend and its points."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Cloud:
    """Points of one kind: its name in the legend, and of each point where it is and what it is."""

    name: str
    points: Sequence[tuple[float, float, str]]


Drawn = TypeVar("Drawn", Series, Cloud)


@dataclass(frozen=True)
class Bar:
    """A bar: what stands under it, its height, what is shown when the pointer is on it, and what stands above it."""

    label: str
    value: float
    title: str = ""
    above: str = ""


def ticks(low: float, high: float, wanted: int = 5, whole: bool = False) -> list[float]:
    """Round numbers between `low` and `high`, at most about `wanted` of them; `whole`: no fractions."""
    if not high > low:
        return [low]
    step = 10 ** math.floor(math.log10((high - low) / wanted))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= wanted)
    step = max(step, 1) if whole else step
    first = math.ceil(low / step - 1e-9)
    return [n * step for n in range(first, math.floor(high / step + 1e-9) + 1)]


def line_chart(
    series: Sequence[Series],
    x_label: str,
    y_label: str,
    title: str,
    width: int = WIDE,
    x_range: tuple[float, float] | None = None,
) -> Markup:
    """A chart of lines over a common x axis of whole numbers, with a legend where there is more than one line.

    A line without points is not there, but the others keep their colours. The axis goes over `x_range`; None: over the
    points.
    """
    points = [point for line in series for point in line.points]
    if not points:
        return Markup("")
    xs, ys = [x for x, _ in points], [y for _, y in points]
    frame = _Frame(width, *(x_range or (min(xs), max(xs))), *_padded(min(ys), max(ys)))
    parts = [frame.axes(x_label, y_label)]
    for number, line in _drawn(series):
        path = " ".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in line.points)
        shape = f'<polyline class="line c{number % COLOURS}" points="{path}"/>'
        if len(line.points) == 1:
            x, y = line.points[0]
            shape = f'<circle class="dot c{number % COLOURS}" cx="{frame.x(x):.1f}" cy="{frame.y(y):.1f}" r="3"/>'
        parts.append(Markup(shape))
    return _figure(title, width, parts, _legend([(number, line.name) for number, line in _drawn(series)]))


def scatter_chart(clouds: Sequence[Cloud], x_label: str, y_label: str, title: str, width: int = WIDE) -> Markup:
    """A chart of points, each named where the pointer is on it, with a legend where there is more than one kind."""
    points = [point for cloud in clouds for point in cloud.points]
    if not points:
        return Markup("")
    xs, ys = [x for x, _, _ in points], [y for _, y, _ in points]
    spread = 0.05 * (max(ys) - min(ys)) or 0.5
    frame = _Frame(width, min(xs), max(xs), min(ys) - spread, max(ys) + spread)
    parts = [frame.axes(x_label, y_label, x_ticks=False)]
    for number, cloud in _drawn(clouds):
        parts += [
            Markup('<circle class="dot c{}" cx="{:.1f}" cy="{:.1f}" r="2.5"><title>{}</title></circle>').format(
                number % COLOURS, frame.x(x), frame.y(y), name
            )
            for x, y, name in cloud.points
        ]
    return _figure(title, width, parts, _legend([(number, cloud.name) for number, cloud in _drawn(clouds)]))


def _drawn(parts: Sequence[Drawn]) -> list[tuple[int, Drawn]]:
    """The lines or clouds that have points, with the numbers of their colours."""
    return [(number, part) for number, part in enumerate(parts) if part.points]


def _legend(names: Sequence[tuple[int, str]]) -> Markup:
    """Names with the numbers of their colours; nothing where there is but one."""
    if len(names) < 2:
        return Markup("")
    items = [Markup('<span><i class="key c{}"></i>{}</span>').format(number % COLOURS, name) for number, name in names]
    return Markup('<figcaption class="legend">{}</figcaption>').format(Markup("").join(items))


def bar_chart(bars: Sequence[Bar], x_label: str, y_label: str, title: str, width: int = WIDE) -> Markup:
    """A chart of upright bars from 0."""
    if not bars:
        return Markup("")
    frame = _Frame(width, 0, len(bars), 0.0, 1.08 * max(bar.value for bar in bars) or 1.0)
    parts = [frame.axes(x_label, y_label, x_ticks=False)]
    thick = min(0.8 * (width - LEFT - RIGHT) / len(bars), WIDEST_BAR)
    for number, bar in enumerate(bars):
        middle, top = frame.x(number + 0.5), frame.y(bar.value)
        parts.append(
            Markup(
                '<rect class="bar" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"><title>{}</title></rect>'
                '<text class="tick" x="{:.1f}" y="{}" text-anchor="middle">{}</text>'
                '<text class="value" x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>'
            ).format(
                middle - thick / 2,
                top,
                thick,
                HEIGHT - BOTTOM - top,
                bar.title,
                middle,
                HEIGHT - BOTTOM + 15,
                bar.label,
                middle,
                top - 5,
                bar.above,
            )
        )
    return _figure(title, width, parts, Markup(""))


def row_chart(bars: Sequence[Bar], title: str, width: int = WIDE, label_width: int = 150) -> Markup:
    """Bars from left to right, one below the other: for names that are long, or many."""
    if not bars:
        return Markup("")
    scale = (width - label_width - 70) / (max(bar.value for bar in bars) or 1.0)
    parts = [
        Markup(
            '<text class="tick" x="{}" y="{}" text-anchor="end">{}</text>'
            '<rect class="bar" x="{}" y="{}" width="{:.1f}" height="18"><title>{}</title></rect>'
            '<text class="value" x="{:.1f}" y="{}">{}</text>'
        ).format(
            label_width - 8,
            number * 26 + 17,
            bar.label,
            label_width,
            number * 26 + 4,
            scale * bar.value,
            bar.title,
            label_width + scale * bar.value + 6,
            number * 26 + 17,
            bar.above,
        )
        for number, bar in enumerate(bars)
    ]
    return _figure(title, width, parts, Markup(""), height=26 * len(bars) + 4)


def _padded(low: float, high: float) -> tuple[float, float]:
    margin = 0.05 * (high - low) or 0.1 * abs(high) or 0.5
    return low - margin if low < 0 or low > margin else 0.0, high + margin


def _figure(title: str, width: int, parts: Sequence[Markup], legend: Markup, height: int = HEIGHT) -> Markup:
    drawing = Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        width, height, title, Markup("").join(parts)
    )
    return Markup('<figure class="chart">{}{}</figure>').format(drawing, legend)


@dataclass(frozen=True)
class _Frame:
    """The plotting area: data coordinates to drawing coordinates."""

    width: int
    x_low: float
    x_high: float
    y_low: float
    y_high: float

    def x(self, value: float) -> float:
        return LEFT + (value - self.x_low) / ((self.x_high - self.x_low) or 1.0) * (self.width - LEFT - RIGHT)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (value - self.y_low) / ((self.y_high - self.y_low) or 1.0) * (HEIGHT - TOP - BOTTOM)

    def axes(self, x_label: str, y_label: str, x_ticks: bool = True) -> Markup:
        parts = []
        right = self.width - RIGHT
        for value in ticks(self.y_low, self.y_high):
            y = self.y(value)
            parts.append(f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(f'<text class="tick" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:,.6g}</text>')
        for value in ticks(self.x_low, self.x_high, 8, whole=True) if x_ticks else []:
            place = f'x="{self.x(value):.1f}" y="{HEIGHT - BOTTOM + 15}"'
            parts.append(f'<text class="tick" {place} text-anchor="middle">{value:,.6g}</text>')
        base = HEIGHT - BOTTOM
        parts.append(f'<line class="axis" x1="{LEFT}" x2="{right}" y1="{base}" y2="{base}"/>')
        middle = (LEFT + right) / 2
        parts.append(f'<text class="label" x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">{escape(x_label)}</text>')
        turned = f'transform="translate(13 {(TOP + base) / 2}) rotate(-90)"'
        parts.append(f'<text class="label" {turned} text-anchor="middle">{escape(y_label)}</text>')
        return Markup("".join(parts))
