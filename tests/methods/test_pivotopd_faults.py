"""Recovery branches that hang or wait, and teachers that are far away."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from turnpoint.methods import Teachers
from turnpoint.methods.pivotopd import PivotOPDSettings
from turnpoint.rollouts import RolloutSettings
from turnpoint.testing import ToyEnv, ToySettings, ToySuite, toy_suite
from turnpoint.testing.harness import make_rollouts, random_agent
from turnpoint.testing.scripted_policy import ScriptedPolicy


@pytest.fixture
def hangs_when_restored() -> Iterator[type[ToyEnv]]:
    release = threading.Event()

    class Hangs(ToyEnv):
        def restore(self, snapshot):
            release.wait()
            return super().restore(snapshot)

    yield Hangs
    release.set()


def test_a_branch_whose_environment_hangs_is_given_up_and_counted(
    play, scripted_teacher, hangs_when_restored
) -> None:
    played = play(
        PivotOPDSettings(group=4, recovery_turns=2, max_recoveries=3),
        teacher=scripted_teacher(),
        suite=ToySuite(ToySettings(), hangs_when_restored),
        rollout=RolloutSettings(max_response_tokens=200, env_seconds=4.0),
        tasks=1,
    )
    branches = [branch for group in played.groups for branch in group.branches]
    assert played.tally["recovery_ended/time_out"] == len(branches) == 3
    assert all("rollout.env_seconds" in branch.error for branch in branches)
    assert all(len(branch.turns) == 1 for branch in branches)
    dropped = sum(value for name, value in played.tally.items() if name.startswith("dropped_tokens/"))
    assert sum(len(row.response_ids) for row in played.rows) + dropped == played.sampled


class Waiting:
    """Lets others go on while it is asked; counts who waits with it. Takes its time where told to."""

    def __init__(self, teacher, seconds=lambda number: 0.0) -> None:
        self._teacher, self._seconds = teacher, seconds
        self.remote = True
        self.asked = self.now = self.most = 0

    async def analyse(self, episode, max_pivots):
        return await self._teacher.analyse(episode, max_pivots)

    async def recover(self, situation):
        self.asked += 1
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(self._seconds(self.asked))
        self.now -= 1
        return await self._teacher.recover(situation)


def test_no_more_branches_are_open_than_places(play, scripted_teacher) -> None:
    teacher = Waiting(scripted_teacher())
    played = play(
        PivotOPDSettings(group=4, recovery_turns=2),
        teacher=teacher,
        rollout=RolloutSettings(max_response_tokens=200, concurrent=3),
    )
    assert played.tally["recovery_jobs"] > 3
    assert teacher.most == 3


def test_a_branch_has_the_wall_clock_of_an_episode(play, scripted_teacher) -> None:
    teacher = Waiting(scripted_teacher(), lambda number: 3600.0)
    played = play(
        PivotOPDSettings(group=2, recovery_turns=1, max_recoveries=2),
        teacher=teacher,
        rollout=RolloutSettings(max_response_tokens=200, episode_seconds=3.0),
        tasks=1,
    )
    assert played.tally["recovery_ended/time_out"] == 2
    assert all(group.branches == [] for group in played.groups)


class Watched(ScriptedPolicy):
    """Keeps which calls were worked on together."""

    def __init__(self, script) -> None:
        super().__init__(script)
        self.batches: list[list[int]] = []

    def advance(self):
        self.batches.append([request.seed for _, request in self._queue])
        return super().advance()


def test_how_fast_a_remote_teacher_answers_does_not_decide_on_batches(scripted_teacher) -> None:
    def batches(seconds):
        suite, policy = toy_suite(), Watched(random_agent())
        rollouts, _ = make_rollouts(suite, policy)
        teachers = Teachers(naming=Waiting(scripted_teacher(), seconds))
        method = PivotOPDSettings(group=4, recovery_turns=2).build()
        asyncio.run(method.collect(suite.tasks("train")[:2], rollouts, teachers))
        return policy.batches

    at_once = batches(lambda number: 0.0)
    assert batches(lambda number: 0.02 * (number % 3)) == at_once
