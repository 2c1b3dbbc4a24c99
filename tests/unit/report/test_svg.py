from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.report.losses import thinned
from tasks.report.svg import HEIGHT, WIDE, Bar, Series, bar_chart, line_chart, ticks


@pytest.mark.parametrize(
    ("low", "high", "expected"), [(0, 10, [0, 2, 4, 6, 8, 10]), (0.13, 0.91, [0.2, 0.4, 0.6, 0.8]), (3, 3, [3])]
)
def test_ticks_are_round(low, high, expected):
    assert ticks(low, high) == pytest.approx(expected)


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.booleans())
def test_ticks_lie_inside(low, width, whole):
    found = ticks(low, low + width, whole=whole)
    slack = 1e-6 * (abs(low) + width)
    assert all(low - slack <= tick <= low + width + slack for tick in found)
    assert len(found) <= 8


class Points(HTMLParser):
    def __init__(self):
        super().__init__()
        self.points = []

    def handle_starttag(self, tag, attributes):
        if tag == "polyline":
            pairs = dict(attributes)["points"].split()
            self.points.append([tuple(float(value) for value in pair.split(",")) for pair in pairs])


def test_lines_stay_inside_the_drawing_and_keep_their_order():
    reader = Points()
    reader.feed(line_chart([Series("a", [(1, 5.0), (2, 3.0), (4, 1.0)])], "step", "loss", "title"))
    (points,) = reader.points
    assert all(0 <= x <= WIDE and 0 <= y <= HEIGHT for x, y in points)
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    assert [y for _, y in points] == sorted(y for _, y in points)  # falling values go down the page


def test_labels_are_escaped():
    chart = line_chart([Series("<a>", [(1, 1.0)]), Series("b", [(2, 2.0)])], "<x>", "&", '"t"')
    chart += bar_chart([Bar("<l>", 1.0, "<t>", "<v>")], "x", "y", "t")
    for name in "axltv":
        assert f"<{name}>" not in chart
        assert f"&lt;{name}&gt;" in chart
    assert 'aria-label="&#34;t&#34;"' in chart


def test_no_data_is_no_chart():
    assert line_chart([], "x", "y", "t") == ""
    assert bar_chart([], "x", "y", "t") == ""


def test_bars_of_height_zero_are_drawn():
    assert bar_chart([Bar("a", 0.0), Bar("b", 0.0)], "x", "y", "t").count("<rect") == 2


def test_a_line_without_points_is_not_there_and_the_others_keep_their_colours():
    chart = line_chart([Series("a", []), Series("b", [(1, 1.0), (2, 2.0)]), Series("c", [(3, 1.0)])], "x", "y", "t")
    assert chart.count("<polyline") == 1
    assert 'class="line c1"' in chart
    assert 'class="dot c2"' in chart
    assert ">a<" not in chart
    assert "key c0" not in chart


def columns(steps, loss):
    return {"step": steps, "loss": loss, "learning_rate": np.full(len(steps), 0.1)}


def test_thinned_curve_keeps_the_mean():
    loss = np.arange(1000, dtype=np.float64)
    points = thinned(columns(np.arange(1, 1001), loss), ("loss",), points=100)
    assert len(points) == 100
    assert points[0] == {"step": 10, "loss": 4.5, "learning_rate": 0.1}
    assert points[-1]["step"] == 1000
    assert np.mean([point["loss"] for point in points]) == pytest.approx(loss.mean())
    short = thinned(columns(np.arange(1, 4), loss[:3]), ("loss",))
    assert [point["loss"] for point in short] == [0.0, 1.0, 2.0]
    assert [point["loss"] for point in thinned(columns(np.arange(1, 1001), loss), (), points=2)] == [499.0, 999.0]
