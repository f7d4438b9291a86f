"""The native engine equals the real one, verbatim; the whole comparison is ``python -m benchmarks.alfworld_parity``."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.alfworld_parity import run

pytestmark = pytest.mark.alfworld


def test_as_alfworld_starts_its_games(games: Path) -> None:
    report = run(games, 4, 25, 2, loud=False)
    assert report.differences == []
    assert (dict(report.games), report.steps) == ({"released": 4, "generated": 2}, 150)


def test_with_the_adapters_engine_and_forks(games: Path) -> None:
    report = run(games, 14, 60, 8, seed=1, real="adapter", loud=False)
    assert report.differences == []
    assert report.steps == 22 * 60
    assert {"go", "open", "take", "move", "examine", "look", "inventory", "help", "?"} <= set(report.verbs)
