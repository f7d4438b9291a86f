from __future__ import annotations

import pytest

from turnpoint.inspector.cells import cell, marks, mode_for, outcome, scale_of


@pytest.mark.parametrize(
    ("path", "sign", "glyph"),
    [
        ([3, 2], 1, "+"),
        ([3, 3], 0, "·"),
        ([3, 4], -1, "−"),
        ([3, None], -1, "!"),
        ([None, None], 0, " "),
        ([3], 0, "·"),
    ],
)
def test_distance_cells(path: list[int | None], sign: int, glyph: str) -> None:
    found = cell({"distances": path}, 0, "distance", 1.0)
    assert (found.sign, found.glyph) == (sign, glyph)


def test_advantage_cells_are_measured_against_the_scale() -> None:
    entry = {"advantages": [0.5, -2.0, None]}
    assert cell(entry, 0, "advantage", 1.0).size == 0.5
    assert cell(entry, 1, "advantage", 1.0) == cell(entry, 1, "advantage", 1.5)
    assert "no advantage" in cell(entry, 2, "advantage", 1.0).words


def test_one_outlier_does_not_set_the_scale() -> None:
    assert scale_of([1.0] * 30 + [1000.0, None]) == 1.0
    assert scale_of([0.0, 0.0]) == 1.0
    assert scale_of([]) == 1.0


def test_marks_and_outcomes() -> None:
    entry = {"pivots": [1], "oracle": [1], "invalid": [0], "attempt": 2, "reused": 1}
    assert [glyph for glyph, _, _ in marks(entry, 1, [1])] == ["◆", "▽", "⤷", "↻"]
    assert [glyph for glyph, _, _ in marks(entry, 0)] == ["×"]
    assert outcome({"success": False, "stop": "max_turns"}) == ("✗", "out of turns")
    assert outcome({"stop": "depth_cap"})[0] == "■"
    assert outcome({}) == ("■", "not finished")


def test_an_episode_without_the_numbers_is_shown_in_another_mode() -> None:
    assert mode_for({"advantages": [1.0]}, "distance") == "advantage"
    assert mode_for({}, "gap") == "plain"
