from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnpoint.pivots.agreement import Calibration, chance_agreement, near, sample_agreement


@pytest.mark.parametrize(
    ("samples", "oracle", "expected"),
    [([[3, 9], [5], [], [2]], 4, 0.5), ([[0], [0, 1], [7]], 1, 2 / 3)],
)
def test_agreement_of_the_protocol(samples: list[list[int]], oracle: int, expected: float) -> None:
    assert sample_agreement(samples, oracle) == pytest.approx(expected)


@pytest.mark.parametrize(("oracle", "expected"), [(10, 0.193103), (0, 0.131034), (29, 0.131034)])
def test_chance_of_the_protocol(oracle: int, expected: float) -> None:
    assert chance_agreement(30, 2, oracle) == pytest.approx(expected, abs=1e-6)


@given(st.integers(1, 9), st.data())
def test_chance_is_the_share_of_all_draws_that_are_right(turns: int, data: st.DataObject) -> None:
    target = data.draw(st.integers(0, turns - 1))
    drawn = data.draw(st.integers(0, turns))
    window = data.draw(st.integers(0, 3))
    every = list(combinations(range(turns), drawn))
    right = sum(near(target, choice, window) for choice in every)
    assert chance_agreement(turns, drawn, target, window) == pytest.approx(right / len(every))


def test_agreement_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        sample_agreement([], 3)
    with pytest.raises(ValueError, match="does not lie"):
        chance_agreement(5, 1, 5)


def test_calibration_error_weighs_bins_by_their_size() -> None:
    table = Calibration((0.5,), probability=True)
    for score, right in [(0.2, False), (0.2, False), (0.9, True), (0.7, False)]:
        table.add(score, right)
    found = table.as_dict()
    assert [b["n"] for b in found["bins"]] == [2, 2]
    assert [b["right"] for b in found["bins"]] == [0, 0.5]
    assert found["error"] == pytest.approx((0.4 + abs(1.6 - 1)) / 4)


def test_scores_in_another_unit_have_no_calibration_error() -> None:
    table = Calibration((1.5,), probability=False)
    table.add(float("inf"), True)
    assert table.as_dict() == {
        "bins": [{"above": 1.5, "to": None, "n": 1, "score": None, "right": 1.0}],
        "error": None,
    }
