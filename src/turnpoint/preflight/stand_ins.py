"""Teachers to put in the place of a run's own: one that remembers, one that is moved, the student, and a silent one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from turnpoint.policy import Policy, ScoreRequest
from turnpoint.prompts.report import Report
from turnpoint.records import Episode, Turn
from turnpoint.teachers.protocol import ScoringTeacher, Situation, TurnScore

Key = tuple[tuple[int, ...], tuple[int, ...], int]


class Remembering:
    """A scoring teacher that is asked about the same tokens once only."""

    def __init__(self, teacher: ScoringTeacher) -> None:
        self.teacher = teacher
        self.frozen, self.remote = teacher.frozen, teacher.remote
        self._known: dict[Key, TurnScore] = {}

    async def score(self, episode: Episode, turns: Sequence[Turn], first: int = 0) -> list[TurnScore]:
        keys = [(turn.prompt_ids, turn.response_ids, first) for turn in turns]
        if not all(key in self._known for key in keys):
            answers = await self.teacher.score(episode, turns, first)
            self._known |= dict(zip(keys, answers, strict=False))
            return answers  # as they came: a wrong number of them is for the method to refuse
        return [replace(self._known[key], turn=turn.index) for key, turn in zip(keys, turns, strict=True)]

    async def check(self) -> None:
        await self.teacher.check()

    def metrics(self) -> dict[str, float]:
        return self.teacher.metrics()

    async def close(self) -> None:
        await self.teacher.close()


class Moved(Remembering):
    """The same teacher with every other log-prob half a nat lower."""

    async def score(self, episode: Episode, turns: Sequence[Turn], first: int = 0) -> list[TurnScore]:
        answers = await self.teacher.score(episode, turns, first)
        return [replace(answer, logprobs=_moved(answer)) for answer in answers]


def _moved(answer: TurnScore) -> np.ndarray:
    places = answer.start + np.arange(len(answer.logprobs))
    return np.asarray(answer.logprobs - 0.5 * (places % 2), dtype=np.float64)


class StudentScores:
    """The student as its own scoring teacher, by the trainer's log-probs: what it says differs from nothing."""

    frozen = True
    remote = False

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    async def score(self, episode: Episode, turns: Sequence[Turn], first: int = 0) -> list[TurnScore]:
        requests = [
            ScoreRequest((*turn.prompt_ids, *turn.response_ids[:first]), turn.response_ids[first:])
            for turn in turns
        ]
        return [
            TurnScore(turn.index, len(request.prompt_ids), request.response_ids, values)
            for turn, request, values in zip(turns, requests, self._policy.logprobs(requests), strict=True)
        ]

    async def check(self) -> None: ...

    def metrics(self) -> dict[str, float]:
        return {}

    async def close(self) -> None: ...


class Silent:
    """A naming teacher that has nothing to say."""

    def __init__(self, remote: bool) -> None:
        self.remote = remote

    async def analyse(self, episode: Episode, max_pivots: int) -> Report | None:
        return None

    async def recover(self, situation: Situation) -> str | None:
        return None

    async def check(self) -> None: ...

    def metrics(self) -> dict[str, float]:
        return {}

    async def close(self) -> None: ...
