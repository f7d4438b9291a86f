"""A method on the corridor game, with a scripted policy and a scripted teacher."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from turnpoint.methods import Method, MethodSettings, Teachers
from turnpoint.prompts import Candidate, PromptSettings, Report
from turnpoint.records import Episode, Group, Row
from turnpoint.rollouts import RolloutSettings, Scorer
from turnpoint.teachers.protocol import Situation, TeacherError, TeacherFailure
from turnpoint.testing import toy_suite
from turnpoint.testing.harness import make_rollouts, random_agent
from turnpoint.testing.scripted_policy import Script, ScriptedPolicy


@dataclass
class ScriptedTeacher:
    """Names the last admissible action at given turns; fails where told to."""

    turns: Callable[[Episode], list[int]] = lambda episode: [1, 3]
    lesson: str = "light the lamps first"
    fail_on: Callable[[Episode], bool] = lambda episode: False
    recovery: Callable[[Situation], str | None] = lambda where: where.observation.admissible[0]
    asked: list[Situation] = field(default_factory=list)
    remote: bool = False

    async def analyse(self, episode: Episode, max_pivots: int) -> Report | None:
        if self.fail_on(episode):
            raise TeacherError(TeacherFailure.TIME_OUT, "no answer")
        named = [
            Candidate(t, episode.turns[t].observation.admissible[-1])
            for t in self.turns(episode)
            if t < len(episode.turns)
        ]
        return Report(summary="", lesson=self.lesson, turn_lessons={}, candidates=named[:max_pivots])

    async def recover(self, situation: Situation) -> str | None:
        self.asked.append(situation)
        return self.recovery(situation)

    async def check(self) -> None: ...

    def metrics(self) -> dict[str, float]:
        return {}

    async def close(self) -> None: ...


@dataclass
class Played:
    method: Method
    groups: list[Group]
    rows: list[Row]
    scorer: Scorer
    tally: dict[str, float]
    policy: ScriptedPolicy
    sampled: int


Play = Callable[..., Played]


@pytest.fixture
def play() -> Play:
    """Collect and credit one step of a method."""

    def run(
        settings: MethodSettings,
        *,
        teacher: object = None,
        scoring: object = None,
        script: Script | None = None,
        suite=None,
        tasks: int = 3,
        prompt: PromptSettings | None = None,
        rollout: RolloutSettings | None = None,
    ) -> Played:
        suite = suite or toy_suite()
        policy = ScriptedPolicy(script or random_agent(invalid=0.05))
        rollouts, scorer = make_rollouts(suite, policy, prompt=prompt, rollout=rollout)
        if scoring is not None and not isinstance(scoring, dict):
            scoring = {"": scoring}
        teachers = Teachers(naming=teacher, scoring=scoring or {})
        settings.check(suite.capabilities, teachers)
        method = settings.build()

        async def go():
            groups = await method.collect(suite.tasks("train")[:tasks], rollouts, teachers)
            return groups, await method.credit(groups, scorer, teachers)

        groups, rows = asyncio.run(go())
        return Played(method, groups, rows, scorer, method.tally.take(), policy, rollouts.sampled_tokens)

    return run


class Stepper:
    """One method over several training steps; every step has its own rollouts."""

    def __init__(self, settings, *, scoring=None, teacher=None, script=None, suite=None, tasks=None) -> None:
        self.suite = suite or toy_suite()
        self.policy = ScriptedPolicy(script or random_agent(invalid=0.05))
        if scoring is not None and not isinstance(scoring, dict):
            scoring = {"": scoring}
        self.teachers = Teachers(naming=teacher, scoring=scoring or {})
        settings.check(self.suite.capabilities, self.teachers)
        self.method = settings.build()
        self.tasks = tasks or self.suite.tasks("train")[:3]
        self.steps = 0

    def step(self, step: int | None = None) -> Played:
        """Collect and credit the next step; tokens are conserved."""
        self.steps = self.steps if step is None else step
        rollouts, scorer = make_rollouts(self.suite, self.policy)
        rollouts.step, rollouts.prefix = self.steps, f"s{self.steps}"
        self.steps += 1

        async def go():
            groups = await self.method.collect(self.tasks, rollouts, self.teachers)
            return groups, await self.method.credit(groups, scorer, self.teachers)

        groups, rows = asyncio.run(go())
        tally = self.method.tally.take()
        dropped = sum(value for name, value in tally.items() if name.startswith("dropped_tokens/"))
        assert sum(len(row.response_ids) for row in rows) + dropped == rollouts.sampled_tokens
        return Played(self.method, groups, rows, scorer, tally, self.policy, rollouts.sampled_tokens)


@pytest.fixture
def stepper() -> type[Stepper]:
    return Stepper


@pytest.fixture
def scripted_teacher() -> type[ScriptedTeacher]:
    return ScriptedTeacher


@pytest.fixture
def easy(play: Play) -> Play:
    """``play`` on short games that random play solves about half of the time, with short prompts."""

    def run(settings: MethodSettings, **options: object) -> Played:
        options = {"suite": toy_suite(rooms=2, max_turns=14), "prompt": PromptSettings(history=2)} | options
        return play(settings, **{"tasks": 2} | options)

    return run
