from __future__ import annotations

import numpy as np
import pytest

from turnpoint.pivots.statistics import bootstrap_interval
from turnpoint.pivots.streaming import StreamingMeans


def test_means_and_intervals_are_those_of_the_usual_bootstrap() -> None:
    rng = np.random.default_rng(0)
    units = [f"task-{i // 4}" for i in range(1200)]
    levels = rng.normal(size=300)
    values = [float(levels[i // 4] + 0.1 * rng.normal()) for i in range(1200)]
    means = StreamingMeans(draws=2000)
    for unit, value in zip(units, values, strict=True):
        means.add(unit, {"x": value})
    found, usual = means.interval("x"), bootstrap_interval(values, units=units)
    assert found.mean == pytest.approx(usual.mean)
    assert found.n == usual.n
    width = usual.high - usual.low
    assert found.low == pytest.approx(usual.low, abs=0.15 * width)
    assert found.high == pytest.approx(usual.high, abs=0.15 * width)


def test_the_order_of_observations_does_not_matter() -> None:
    entries = [(f"t{i % 7}", float(i % 5)) for i in range(700)]
    found = []
    for order in (entries, entries[::-1]):
        means = StreamingMeans(draws=100)
        for unit, value in order:
            means.add(unit, {"x": value})
        found.append(means.interval("x"))
    assert (found[0].mean, found[0].low, found[0].high) == pytest.approx(
        (found[1].mean, found[1].low, found[1].high)
    )


def test_several_values_of_a_unit_and_names_that_come_late() -> None:
    means = StreamingMeans(draws=50)
    for i in range(600):
        means.add(f"t{i}", {"a": 1.0} if i < 500 else {"a": 1.0, "late": [0.0, 1.0]})
    assert means.interval("a").n == 600
    late = means.interval("late")
    assert (late.mean, late.n) == (0.5, 200)
    assert means.interval("never") is None
    assert means.names() == ["a", "late"]


def test_memory_does_not_grow_with_observations() -> None:
    means = StreamingMeans(draws=20)
    for i in range(3000):
        means.add(f"t{i}", {"x": 1.0})
    assert len(means._weights) <= 512
    assert means._sums.shape == (20, 1)
