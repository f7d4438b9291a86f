"""What is made of a sandbox's report, without a sandbox."""

from __future__ import annotations

import pytest

from turnpoint.envs.repo_repair.runner import read
from turnpoint.envs.repo_repair.sandbox import Ran


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        ("time", "The tests took too long and were ended."),
        ("memory", "The tests used too much memory and were ended."),
        ("report", "The tests reported too much and were ended."),
    ],
)
def test_what_was_ended_is_told_with_its_reason(ended: str, said: str) -> None:
    facts = [{"id": "test_a.py::test_it", "when": "call", "outcome": "passed", "text": ""}]
    found = read(Ran(None, "", ended=ended, facts=facts))
    assert (found.fault, found.passed) == (said, frozenset())
