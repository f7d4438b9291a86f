"""Several answers to one question: turns count by agreement, and what is left of it is dropped by name."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import numpy as np
import pytest

from turnpoint.config import ConfigError
from turnpoint.methods.consistency import ConsistencySettings, Poll
from turnpoint.methods.pivotopd import PivotOPDSettings
from turnpoint.methods.situations import situation
from turnpoint.methods.tally import Tally
from turnpoint.prompts import Candidate, Report
from turnpoint.records import RowKind
from turnpoint.teachers.http import HttpTeacher, HttpTeacherSettings
from turnpoint.teachers.oracle import OracleTeacherSettings
from turnpoint.teachers.protocol import TeacherError, TeacherFailure
from turnpoint.testing import FakeEndpoint, toy_suite
from turnpoint.testing.harness import make_rollouts, random_agent
from turnpoint.testing.scripted_policy import ScriptedPolicy

FIVE = ConsistencySettings(samples=5, min_agreement=0.4)


@dataclass
class Choir:
    """A teacher whose draws say what the test wrote down; None = it fails."""

    reports: list[Report | None] = field(default_factory=list)
    actions: list[str | None] = field(default_factory=list)
    number: int = 0
    remote: bool = False
    varies: bool = True

    def draw(self, number: int) -> Choir:
        return Choir(self.reports, self.actions, number)

    async def analyse(self, episode, max_pivots):
        return self._answer(self.reports)

    async def recover(self, situation):
        return self._answer(self.actions)

    def _answer(self, answers):
        answer = answers[self.number % len(answers)]
        if answer is None:
            raise TeacherError(TeacherFailure.TIME_OUT, "no answer")
        return answer

    async def check(self) -> None: ...

    def metrics(self) -> dict[str, float]:
        return {}

    async def close(self) -> None: ...


def report(*named: tuple[int, str], lesson: str = "") -> Report:
    return Report(lesson=lesson or None, candidates=[Candidate(*pair) for pair in named])


@pytest.fixture
def episode():
    suite = toy_suite()
    rollouts, _ = make_rollouts(suite, ScriptedPolicy(random_agent()))
    return asyncio.run(rollouts.play(suite.tasks("train")[0], 0))


def poll(choir: Choir, settings: ConsistencySettings = FIVE) -> tuple[Poll, Tally]:
    rollouts, _ = make_rollouts(toy_suite(), ScriptedPolicy(random_agent()))
    tally = Tally()
    return Poll(settings, choir, rollouts, tally), tally


def test_a_vote_over_reports(episode) -> None:
    """Turn 3 is named alike by three of five, whatever its spelling; turn 1 by one; one answer is missing."""
    choir = Choir(
        [
            report((3, "go left"), lesson="first"),
            report((3, "GO  LEFT"), (1, "go right"), lesson="second"),
            report((3, "go right"), lesson="third"),
            None,
            report((3, "I would go left")),
        ]
    )
    asked, tally = poll(choir)
    found, shares = asyncio.run(asked.report(episode, 5))
    assert found.candidates == [Candidate(3, "go left")]
    assert shares == {3: 0.6}
    assert found.lesson == "first"
    counts = tally.take()
    assert counts["pivots_skipped/low_agreement"] == 1
    assert counts["teacher_failures/time_out"] == 1
    assert counts["agreement"] == pytest.approx((0.6 + 0.2) / 2)


def test_the_limit_keeps_what_is_agreed_on_most(episode) -> None:
    choir = Choir([report((1, "go left"), (2, "go left")), report((2, "go left"))])
    asked, _ = poll(choir, ConsistencySettings(samples=2, min_agreement=0.5))
    found, shares = asyncio.run(asked.report(episode, 1))
    assert (found.candidates, shares) == ([Candidate(2, "go left")], {2: 1.0})


def test_nobody_answers(episode) -> None:
    asked, _ = poll(Choir([None]))
    assert asyncio.run(asked.report(episode, 5)) == (None, {})


def test_a_vote_over_recovery_actions(episode) -> None:
    where = situation(episode, 2)
    asked, tally = poll(Choir(actions=["go left", "go left!", "fly", None, "go right"]))
    assert asyncio.run(asked.action(where)) == ("go left", 0.4)
    assert tally.take()["teacher_failures/time_out"] == 1
    asked, _ = poll(Choir(actions=["fly"]))
    assert asyncio.run(asked.action(where)) == (None, 0.0)


def test_a_chat_model_behind_an_endpoint_is_asked_as_often(episode, monkeypatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    replies = [
        f'<correct_action step="2">{action}</correct_action>' for action in ("go left", "go right", "go left")
    ]
    with FakeEndpoint(replies) as endpoint:
        data = {"base_url": endpoint.url, "model": "fake-model", "temperature": 0.8, "concurrency": 1}
        teacher = HttpTeacher(HttpTeacherSettings.model_validate(data))
        asked, _ = poll(teacher, ConsistencySettings(samples=3))

        async def go():
            try:
                return await asked.report(episode, 5)
            finally:
                await teacher.close()

        found, shares = asyncio.run(go())
    assert found.candidates == [Candidate(2, "go left")]
    assert shares == {2: pytest.approx(2 / 3)}
    assert len(endpoint.requests) == teacher.metrics()["requests"] == 3


def test_weights_follow_the_agreement(play, scripted_teacher) -> None:
    """Three of four answers name turn 1 alike: its preventive term, and nothing else, is three quarters as strong."""

    class Mostly(scripted_teacher):
        varies = True

        def draw(self, number):
            return self if number < 3 else scripted_teacher(turns=lambda episode: [])

    names = {"teacher": Mostly(turns=lambda episode: [1]), "script": random_agent()}
    common = {"group": 4, "w_prev": 0.3, "w_traj": 0.0, "recovery_turns": 0}
    once = play(PivotOPDSettings(**common), **names)
    voted = play(PivotOPDSettings(**common, consistency={"samples": 4}), **names)
    plain = play(PivotOPDSettings(**common | {"w_prev": 0.0}), **names)
    assert voted.tally["pivots_used"] == once.tally["pivots_used"] > 0
    moved = 0
    for a, b, zero in zip(once.rows, voted.rows, plain.rows, strict=True):
        term = a.advantages - zero.advantages
        moved += bool(np.any(term))
        np.testing.assert_allclose(b.advantages, zero.advantages + 0.75 * term, atol=1e-12)
    assert moved == once.tally["pivots_used"]
    assert {p.score for g in voted.groups for e in g.episodes for p in e.pivots} == {0.75}


def test_recovery_rows_are_weighted_and_doubtful_branches_end(play, scripted_teacher) -> None:
    class Split(scripted_teacher):
        varies = True

        def draw(self, number):
            return self if number != 1 else scripted_teacher(recovery=lambda where: "wait for it")

    settings = PivotOPDSettings(group=4, recovery_turns=1, consistency={"samples": 2, "min_agreement": 0.5})
    played = play(settings, teacher=Split())
    rows = [row for row in played.rows if row.kind == RowKind.RECOVERY]
    assert rows
    turns = [turn for g in played.groups for b in g.branches for turn in b.turns]
    assert all(turn.scores["weight"] == (0.5,) * len(turn.response_ids) for turn in turns)
    for row in rows:
        branch = next(b for g in played.groups for b in g.branches if b.id == row.episode)
        turn = next(t for t in branch.turns if t.index == row.turn)
        expected = 0.5 * np.clip(np.array(turn.logprobs) - row.old_logprobs, -5, 5)
        np.testing.assert_allclose(row.advantages, expected, atol=1e-12)
    strict = settings.model_copy(
        update={"consistency": ConsistencySettings(samples=2, min_agreement=0.6, recovery=True)}
    )
    played = play(strict, teacher=Split(turns=lambda episode: [1]))
    assert played.tally["recovery_ended/low_agreement"] == played.tally["recovery_jobs"] > 0
    assert not any(g.branches for g in played.groups)


def test_a_teacher_that_always_says_the_same_is_refused(play) -> None:
    suite = toy_suite()
    settings = PivotOPDSettings(group=2, consistency=FIVE)
    with pytest.raises(ConfigError, match=r"teacher\.temperature above 0"):
        play(settings, teacher=OracleTeacherSettings().build(suite), suite=suite)


def test_a_vote_finds_most_errors_of_an_oracle_that_errs(play) -> None:
    """With 30 % wrong actions drawn anew for each answer, the vote of seven is right far more often than one answer."""
    suite = toy_suite()

    def right(consistency) -> float:
        teacher = OracleTeacherSettings.model_validate({"error": {"actions": 0.3}}).build(suite)
        settings = PivotOPDSettings(group=8, recovery_turns=0, reliability={}, consistency=consistency)
        return play(settings, teacher=teacher, suite=suite).tally["reliability/action"]

    once, voted = right(None), right({"samples": 7})
    assert 0.55 < once < 0.85
    assert voted > once + 0.15
