"""The table and the plot of benchmarks/quality.py: Markdown and an SVG that stands by itself."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

import numpy as np

from tasks.report.svg import ticks

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 860, 460, 60, 210, 20, 48
LABEL_HEIGHT = 14
OURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7b3294")
PUBLISHED = ("#222222", "#555555", "#777777", "#999999")
DASHES = ("", "6 3", "2 3", "8 3 2 3")


@dataclass(frozen=True)
class Outcome:
    """One run.

    Attributes:
        name: the contestant.
        ours: whether no paper has published it.
        seed: of the order of the text and of what is drawn.
        tokens: tokens trained on.
        bytes: what these tokens are of the text, about (tokens over the tokens of a byte).
        initial: bits per byte of the test text before training.
        test: bits per byte of the test text after it.
        curve: [(tokens, bits per byte of the validation text)].
        run: id of the run.
    """

    name: str
    ours: bool
    seed: int
    tokens: int
    bytes: float
    initial: float
    test: float
    curve: list[tuple[int, float]] = field(repr=False)
    run: str

    @property
    def validation(self) -> float:
        """The best score on the validation text."""
        return min(value for _, value in self.curve)


def by_name(outcomes: Iterable[Outcome]) -> dict[str, list[Outcome]]:
    """Each contestant's runs, the best mean validation score first."""
    grouped: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        grouped.setdefault(outcome.name, []).append(outcome)
    return dict(sorted(grouped.items(), key=lambda item: np.mean([run.validation for run in item[1]])))


def markdown(outcomes: Iterable[Outcome]) -> str:
    """The table, a line for each contestant; of several seeds the mean, and their standard deviation (n - 1)."""
    lines = [
        "| contestant | validation | test | test, before training | text seen, MB | seeds |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for name, runs in by_name(outcomes).items():
        title = f"**{name}**" if runs[0].ours else name
        scores = [_spread([getattr(run, part) for run in runs]) for part in ("validation", "test", "initial")]
        seen = np.mean([run.bytes for run in runs]) / 1e6
        lines.append(f"| {title} | {' | '.join(scores)} | {seen:.2f} | {len(runs)} |")
    return "\n".join(lines) + "\n"


def _spread(values: Sequence[float]) -> str:
    mean = f"{np.mean(values):.3f}"
    return mean if len(values) == 1 or np.ptp(values) == 0 else f"{mean} ± {np.std(values, ddof=1):.3f}"


def plot(outcomes: Iterable[Outcome], highest: float) -> str:
    """Validation bits per byte over tokens, a line for each contestant (its first seed); what is above `highest` is
    cut off.
    """
    lines = {name: min(runs, key=lambda run: run.seed) for name, runs in by_name(outcomes).items()}
    last = max(point[0] for line in lines.values() for point in line.curve)
    lowest = min(line.validation for line in lines.values()) - 0.02
    frame = _Frame(last, lowest, highest)
    ours = [name for name, line in lines.items() if line.ours]
    theirs = [name for name, line in lines.items() if not line.ours]
    parts = [frame.axes()]
    ends = sorted((frame.y(line.curve[-1][1]), name) for name, line in lines.items())
    places = dict(zip((name for _, name in ends), _apart([y for y, _ in ends], HEIGHT - BOTTOM), strict=True))
    for name, line in lines.items():
        number = (ours if line.ours else theirs).index(name)
        colour = (OURS if line.ours else PUBLISHED)[number % len(OURS if line.ours else PUBLISHED)]
        dash = "" if line.ours else DASHES[number % len(DASHES)]
        parts.append(frame.line(line.curve, colour, dash, 2.2 if line.ours else 1.4))
        parts.append(frame.label(name, line.curve[-1][1], places[name], colour, line.ours))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="12"><rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _apart(wanted: Sequence[float], last: float) -> list[float]:
    """Places near the `wanted` ones (ascending), `LABEL_HEIGHT` apart and none below `last`."""
    places: list[float] = []
    for y in wanted:
        places.append(max(y, places[-1] + LABEL_HEIGHT) if places else y)
    return [min(y, last - (len(places) - 1 - i) * LABEL_HEIGHT) for i, y in enumerate(places)]


@dataclass(frozen=True)
class _Frame:
    last: float
    lowest: float
    highest: float

    def x(self, tokens: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * tokens / self.last

    def y(self, value: float) -> float:
        inside = min(value, self.highest)
        return TOP + (HEIGHT - TOP - BOTTOM) * (self.highest - inside) / (self.highest - self.lowest)

    def axes(self) -> str:
        parts = []
        for value in ticks(self.lowest, self.highest):
            y = self.y(value)
            parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dddddd"/>')
            parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.2f}</text>')
        bottom = HEIGHT - BOTTOM
        parts += [
            f'<text x="{self.x(value):.1f}" y="{bottom + 16}" text-anchor="middle">{value:,.0f}</text>'
            for value in ticks(0, self.last, whole=True)
        ]
        middle = (LEFT + WIDTH - RIGHT) / 2
        parts.append(f'<text x="{middle}" y="{bottom + 36}" text-anchor="middle">tokens</text>')
        parts.append(
            f'<text transform="translate(14 {(TOP + bottom) / 2}) rotate(-90)" text-anchor="middle">'
            "bits per byte, validation text</text>"
        )
        return "\n".join(parts)

    def line(self, curve: Sequence[tuple[int, float]], colour: str, dash: str, width: float) -> str:
        shown = [point for point in curve if point[1] <= self.highest]
        points = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in shown)
        return (
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width}" '
            f'stroke-dasharray="{dash}"/>'
        )

    def label(self, name: str, value: float, y: float, colour: str, bold: bool) -> str:
        weight = "bold" if bold else "normal"
        return (
            f'<text x="{WIDTH - RIGHT + 8}" y="{y + 4:.1f}" fill="{colour}" font-weight="{weight}">'
            f"{escape(name)} {value:.3f}</text>"
        )
