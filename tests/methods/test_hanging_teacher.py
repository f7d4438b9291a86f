"""A teacher's server that hangs or limits: the step is complete without its signal, soon, and says so."""

from __future__ import annotations

import pytest

from turnpoint.methods.opd import OPDSettings
from turnpoint.methods.pivotopd import PivotOPDSettings
from turnpoint.methods.stride import StrideSettings
from turnpoint.teachers.http import HttpTeacher, HttpTeacherSettings
from turnpoint.teachers.scoring.completions import WAYS
from turnpoint.teachers.scoring.http import HttpScoring, HttpScoringSettings
from turnpoint.testing import FakeEndpoint, Scripted
from turnpoint.testing.scripted_policy import CharTokenizer

HANG = Scripted(behaviour="hang")


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def patience(endpoint: FakeEndpoint) -> dict[str, object]:
    return {
        "base_url": endpoint.url, "model": "fake-model", "concurrency": 2, "deadline": 0.5, "timeout": 5.0,
        "rest_after": 2, "backoff": 0.0,
    }  # fmt: skip


def conserved(played) -> bool:
    dropped = sum(value for name, value in played.tally.items() if name.startswith("dropped_tokens/"))
    return sum(len(row.response_ids) for row in played.rows) + dropped == played.sampled


def test_pivotopd_keeps_its_outcome_rows_when_the_naming_teacher_hangs(play) -> None:
    with FakeEndpoint([HANG]) as endpoint:
        teacher = HttpTeacher(HttpTeacherSettings.model_validate(patience(endpoint)))
        played = play(PivotOPDSettings(group=6), teacher=teacher)
    asked = teacher.metrics()["reports"]
    assert asked > 6
    assert (
        len(endpoint.requests) <= 3
    )  # the others were not sent; one may follow before the second is given up
    timed_out, unsent = (played.tally[f"teacher_failures/{why}"] for why in ("time_out", "unreachable"))
    assert 2 <= timed_out <= 3
    assert unsent == teacher.metrics()["gate/at_rest"] == asked - timed_out
    assert conserved(played)
    assert len(played.rows) == sum(len(e.new_turns) for group in played.groups for e in group.episodes)


@pytest.mark.parametrize("settings", [OPDSettings(group=3), StrideSettings(group=3)], ids=["opd", "stride"])
def test_distillation_without_its_teacher_ends_typed_and_soon(play, settings) -> None:
    with FakeEndpoint([HANG]) as endpoint:
        teacher = HttpScoring(HttpScoringSettings.model_validate(patience(endpoint)), CharTokenizer())
        teacher._ask = WAYS[0]  # the server worked when the run began
        played = play(settings, scoring=teacher)
    assert len(endpoint.requests) <= 4
    failures = sum(value for name, value in played.tally.items() if name.startswith("teacher_failures/"))
    assert (
        failures
        == sum(value for name, value in teacher.metrics().items() if name.startswith("failures/"))
        > 0
    )
    assert conserved(played)
    assert played.sampled > 0
    assert played.rows == []
    assert played.tally["signal_empty/teacher"] == 1
