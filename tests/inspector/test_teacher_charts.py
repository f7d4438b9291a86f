"""Charts of what goes beyond PivotOPD's paper: there where a run measured it, and nowhere else."""

from __future__ import annotations

from pathlib import Path

from turnpoint.inspector.figures import charts
from turnpoint.inspector.folder import RunFolder


def record(step: int, **values: float) -> dict[str, float]:
    return {"step": step, "reward": 1.0, **values}


def test_reliability_with_its_interval_and_k() -> None:
    train = [
        record(
            step,
            **{"reliability/action": 0.6, "reliability_low/action": 0.5, "reliability_high/action": 0.7},
            recovery_turns=2.0 + step,
        )
        for step in range(3)
    ]
    drawn = charts(RunFolder(Path("run"), train=train))
    (right,) = (chart for chart in drawn if "right, by the oracle" in chart)
    assert "actions at them" in right
    assert "named turns, within one" not in right
    assert right.count('<polygon class="band') == 1
    assert any("Turns of a recovery branch" in chart for chart in drawn)


def test_runs_that_measured_nothing_have_no_such_chart() -> None:
    drawn = charts(RunFolder(Path("run"), train=[record(step) for step in range(3)]))
    assert drawn
    assert not any("oracle" in chart or "recovery branch" in chart for chart in drawn)
