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
        script: Script | None = None,
        suite=None,
        tasks: int = 3,
        prompt: PromptSettings | None = None,
        rollout: RolloutSettings | None = None,
    ) -> Played:
        suite = suite or toy_suite()
        policy = ScriptedPolicy(script or random_agent(invalid=0.05))
        rollouts, scorer = make_rollouts(suite, policy, prompt=prompt, rollout=rollout)
        teachers = Teachers(naming=teacher)
        settings.check(suite.capabilities, teachers)
        method = settings.build()

        async def go():
            groups = await method.collect(suite.tasks("train")[:tasks], rollouts, teachers)
            return groups, await method.credit(groups, scorer, teachers)

        groups, rows = asyncio.run(go())
        return Played(method, groups, rows, scorer, method.tally.take(), policy, rollouts.sampled_tokens)

    return run


@pytest.fixture
def scripted_teacher() -> type[ScriptedTeacher]:
    return ScriptedTeacher
