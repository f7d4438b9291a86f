from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnpoint.inspector.plots import (
    HEIGHT,
    WIDTH,
    Series,
    interval_bar,
    label,
    line_chart,
    thin,
    ticks,
    whole_ticks,
)

VALUES = st.floats(-1e9, 1e9) | st.none()


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9))
def test_ticks_cover_the_range_with_few_round_steps(low: float, span: float) -> None:
    high = low + span
    if not high - low > abs(low) * 1e-6:
        return
    found = ticks(low, high)
    slack = 1e-6 * (high - low)
    assert found[0] <= low + slack
    assert found[-1] >= high - slack
    assert 2 <= len(found) <= 8
    assert found == sorted(found)


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_steps_on_an_axis_are_whole_and_inside(low: int, span: int) -> None:
    found = whole_ticks(low, low + span)
    assert all(x == int(x) for x in found)
    assert found == sorted(set(found))
    assert (found[0], found[-1]) == (low, low + max(1, span))
    assert len(found) <= 9


@given(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=30))
def test_every_chart_is_well_formed_and_inside_its_frame(
    pairs: list[tuple[float | None, float | None]],
) -> None:
    series = [
        Series("<one>", list(range(len(pairs))), [a for a, _ in pairs]),
        Series("two", list(range(len(pairs))), [b for _, b in pairs]),
    ]
    chart = line_chart("A & B", series)
    if all(a is None and b is None for a, b in pairs):
        assert chart == ""
        return
    figure = ElementTree.fromstring(str(chart))
    for line in figure.iter("polyline"):
        for point in line.attrib["points"].split():
            x, y = map(float, point.split(","))
            assert -0.5 <= x <= WIDTH + 0.5
            assert -0.5 <= y <= HEIGHT + 0.5


def test_a_band_and_its_values_can_be_read() -> None:
    chart = str(
        line_chart("Success", [Series("held out", [0, 10], [0.2, 0.8], [0.1, 0.7], [0.3, 0.9])], percent=True)
    )
    assert 'class="band s0"' in chart
    assert "held out, step 10: 80% [70%, 90%]" in chart


def test_not_a_number_is_a_gap() -> None:
    assert line_chart("x", [Series("a", [0, 1], [math.nan, None])]) == ""


def test_long_curves_are_averaged_and_say_so() -> None:
    long = Series("a", list(range(1000)), [float(i) for i in range(1000)])
    short, size = thin(long)
    assert size == 4
    assert len(short.x) == 250
    assert short.y[0] == 1.5
    assert "each point averages 4 steps" in line_chart("x", [long])


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.25, "0.25"), (123456.0, "1.2e5"), (0.00012, "1.2e-4"), (1e-12, "1.0e-12")],
)
def test_labels_are_short(value: float, text: str) -> None:
    assert label(value) == text


def test_interval_bar_stays_on_its_line() -> None:
    assert 'cx="116.0"' in interval_bar(1.0, 0.9, 1.2)
