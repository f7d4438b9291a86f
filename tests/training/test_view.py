from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from turnpoint.training.view import ConsoleView, step_success

METRICS: dict[str, Any] = {
    "episodes": 4, "success": 0.5, "turns": 3.25, "invalid": 0.0, "stops": {"success": 2, "failure": 2},
    "seconds": 1.5, "update/grad_norm": 0.25,
}  # fmt: skip


def shown(*steps: dict[str, Any], terminal: bool = False) -> str:
    out = StringIO()
    console = Console(file=out, force_terminal=terminal, width=160)
    with ConsoleView(console, 9) as view:
        for number, metrics in enumerate(steps, start=1):
            view.step(number, metrics)
    return out.getvalue()


def test_success_says_how_many_episodes_it_is_of() -> None:
    assert step_success(METRICS) == "50.0%"
    stopped = METRICS | {"episodes": 7, "stops": METRICS["stops"] | {"out_of_support": 3}}
    assert step_success(stopped) == "50.0% of 4 ended"
    none = METRICS | {"success": None, "stops": {"out_of_support": 4}}
    assert step_success(none) == "– of 0 ended"


@pytest.mark.parametrize("terminal", [False, True])
def test_columns_of_a_method_appear_with_its_metrics(terminal: bool) -> None:
    plain = shown(METRICS, terminal=terminal)
    assert "50.0%" in plain
    assert "stopped" not in plain
    assert "pivots" not in plain
    both = shown(METRICS | {"stopped": 0.75}, METRICS | {"pivots_used": 3.0}, terminal=terminal)
    assert "stopped" in both
    assert "75.0%" in both
    assert "pivots" in both


def test_a_configured_signal_that_reaches_nothing_is_said_once() -> None:
    empty = METRICS | {"signal_empty/teacher": 1.0}
    assert shown(empty, empty).count("signal 'teacher'") == 1
