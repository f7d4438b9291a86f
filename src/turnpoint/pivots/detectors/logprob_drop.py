"""Where the teacher's log-prob falls below what is usual for that turn (STRIDE section 3's residual)."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import PositiveInt

from turnpoint.pivots.detectors.protocol import (
    Base,
    Detection,
    DetectorFailure,
    DetectorSettings,
    Sample,
    Sources,
)
from turnpoint.records import Episode, Turn
from turnpoint.teachers.protocol import TeacherError

TEACHER = "teacher"
"""Key of ``Turn.scores`` with the scoring teacher's log-probs."""


class LogprobDropSettings(DetectorSettings):
    """Turns whose mean teacher log-prob lies farthest below the mean of turns with the same number."""

    kind: Literal["logprob_drop"] = "logprob_drop"
    top: PositiveInt = 1
    """Most turns named in an episode."""
    threshold: float = 0.0
    """Least drop in nats below the mean of the turn's number."""

    def build(self, sources: Sources) -> LogprobDrop:
        return LogprobDrop(self, sources)


class LogprobDrop(Base):
    """The score is the drop in nats per token; ``prepare`` learns what is usual."""

    def __init__(self, settings: LogprobDropSettings, sources: Sources) -> None:
        super().__init__(sources, "logprob_drop", edges=(0.25, 0.5, 1.0, 2.0), probability=False, learns=True)
        self.settings = settings
        self._usual: dict[int, float] = {}
        self._overall = 0.0
        self._asked: dict[tuple[str, int], dict[int, float]] = {}
        """What the scoring teacher said about failures of the baseline, so that none is asked about twice."""

    async def prepare(self, episodes: Sequence[Episode]) -> None:
        by_turn: dict[int, list[float]] = defaultdict(list)
        for means in await asyncio.gather(*(self._means(episode) for episode in episodes)):
            for turn, mean in means.items():
                by_turn[turn].append(mean)
        self._usual = {turn: float(np.mean(values)) for turn, values in by_turn.items()}
        self._overall = float(np.mean([v for values in by_turn.values() for v in values])) if by_turn else 0.0

    def recorded(self, episode: Episode) -> list[Sample] | None:
        means = teacher_means(episode)
        return None if means is None else [self._named(means)]

    async def detect(self, episode: Episode) -> list[Sample]:
        known = self._asked.pop(_key(episode), None)
        return [self._named(await self._ask(episode) if known is None else known)]

    async def _means(self, episode: Episode) -> dict[int, float]:
        """Means on record, or of the scoring teacher where there is one; those of failures are kept for ``detect``."""
        means = teacher_means(episode)
        if self.sources.scoring is not None:
            try:
                means = await self._ask(episode) if means is None else means
            except DetectorFailure as failure:
                self.counts[f"baseline: {failure.reason}"] += 1
                return {}
            if not episode.success:
                self._asked[_key(episode)] = means
        return means or {}

    async def _ask(self, episode: Episode) -> dict[int, float]:
        self.sources.need("scoring", self.name)
        assert self.sources.scoring is not None
        turns = [turn for turn in episode.turns if turn.response_ids]
        if not turns:
            raise DetectorFailure("no tokens on record")
        try:
            scores = await self.sources.scoring(episode.task).score(episode, turns)
        except TeacherError as error:
            raise DetectorFailure(f"teacher: {error.reason.value}", str(error)) from error
        for turn, score in zip(turns, scores, strict=True):
            turn.scores[TEACHER] = tuple(score.logprobs.tolist())
        return teacher_means(episode) or {}

    def _named(self, means: dict[int, float]) -> Sample:
        drops = [Detection(turn, self._usual.get(turn, self._overall) - mean) for turn, mean in means.items()]
        named = [drop for drop in drops if drop.score > self.settings.threshold]
        return sorted(named, key=lambda d: (-d.score, d.turn))[: self.settings.top]


def _key(episode: Episode) -> tuple[str, int]:
    """What tells an episode from all others: ids of evaluations are the same at every step."""
    return episode.id, hash(tuple(turn.response_ids for turn in episode.turns))


def teacher_means(episode: Episode) -> dict[int, float] | None:
    """Mean teacher log-prob of each turn with tokens, by place in the episode; None if no turn was scored."""
    means = {
        place: float(np.mean(turn.scores[TEACHER]))
        for place, turn in enumerate(episode.turns)
        if fully_scored(turn, TEACHER)
    }
    return means or None


def fully_scored(turn: Turn, name: str) -> bool:
    """Whether a signal covers every token of the response."""
    return 0 < len(turn.response_ids) == len(turn.scores.get(name, ()))
