"""A scoring teacher without a model: its log-probs come from a function of the episode and the turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import numpy as np

from turnpoint.records import Episode, Turn
from turnpoint.teachers.protocol import TeacherError, TurnScore

TurnValues = Callable[[Episode, Turn], float | Sequence[float]]
"""One number for all tokens of a turn, or one for each. May raise ``TeacherError``."""


def like_student(episode: Episode, turn: Turn) -> Sequence[float]:
    """The student's own log-probs."""
    return turn.logprobs


class ScriptedScoring:
    """Implements ``ScoringTeacher``; keeps which turns it was asked for (``asked``), call by call."""

    def __init__(
        self,
        values: TurnValues = like_student,
        *,
        frozen: bool = True,
        remote: bool = False,
        delay: float = 0.0,
    ) -> None:
        """``delay``: seconds before each answer."""
        self.values = values
        self.frozen, self.remote, self.delay = frozen, remote, delay
        self.asked: list[tuple[str, tuple[int, ...]]] = []
        """(episode id, indices of its turns) of each call."""
        self.closed = False

    async def score(self, episode: Episode, turns: Sequence[Turn], first: int = 0) -> list[TurnScore]:
        self.asked.append((episode.id, tuple(turn.index for turn in turns)))
        await asyncio.sleep(self.delay)
        return [self._score(episode, turn, first) for turn in turns]

    def _score(self, episode: Episode, turn: Turn, first: int) -> TurnScore:
        given = np.asarray(self.values(episode, turn), dtype=np.float64)
        logprobs = np.full(len(turn.response_ids), float(given)) if given.ndim == 0 else given
        return TurnScore(
            turn.index, len(turn.prompt_ids) + first, turn.response_ids[first:], logprobs[first:]
        )

    async def check(self) -> None: ...

    def metrics(self) -> dict[str, float]:
        return {"requests": float(len(self.asked))}

    async def close(self) -> None:
        self.closed = True


__all__ = ["ScriptedScoring", "TeacherError", "TurnValues", "like_student"]
