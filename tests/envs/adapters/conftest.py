from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from turnpoint.envs.adapters.suite import AdapterSuite

GAMES = Path(__file__).parent / "games"


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., AdapterSuite]]:
    """Builds suites of the counting game; processes find it as this one does, and are ended with the test."""
    monkeypatch.syspath_prepend(GAMES)
    settings = importlib.import_module("counting_game").CountingSettings
    made: list[AdapterSuite] = []

    def build(**changes: object) -> AdapterSuite:
        made.append(settings.model_validate(changes).build())
        return made[-1]

    yield build
    for suite in made:
        suite.pool.close()
