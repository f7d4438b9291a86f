"""Fast OPD (arXiv 2602.15260): on-policy distillation of truncated rollouts.

Training stops every rollout after a fixed number of turns or tokens; evaluation plays the full budget.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Literal, Self

from pydantic import PositiveInt, model_validator

from turnpoint.methods.opd import DistillationSettings
from turnpoint.methods.parts import Stateless
from turnpoint.methods.protocol import Teachers
from turnpoint.methods.scoring import distillation_rows, score_missing
from turnpoint.methods.tally import Tally
from turnpoint.records import Episode, Group, Row, StopReason, Task
from turnpoint.rollouts import Rollouts, Scorer


class FastOPDSettings(DistillationSettings):
    """On-policy distillation of truncated rollouts."""

    title: ClassVar[str] = "Fast OPD"
    paper: ClassVar[str] = "arXiv 2602.15260"
    terms: ClassVar[tuple[str, ...]] = ("on-policy distillation (reverse KL)", "fixed truncation")

    kind: Literal["fast_opd"] = "fast_opd"
    turns: PositiveInt | None = 5
    """Turns of a training rollout; null = no limit on turns."""
    tokens: PositiveInt | None = None
    """Sampled tokens of a training rollout; null = no limit on tokens."""

    @model_validator(mode="after")
    def _truncates(self) -> Self:
        if self.turns is None and self.tokens is None:
            raise ValueError(
                "neither turns nor tokens is limited, so nothing is truncated; set one, or use opd"
            )
        return self

    def build(self) -> FastOPD:
        return FastOPD(self)


class FastOPD(Stateless):
    """OPD on the first ``turns`` turns or ``tokens`` tokens."""

    def __init__(self, settings: FastOPDSettings) -> None:
        self.settings = settings
        self.tally = Tally()

    async def collect(self, tasks: Sequence[Task], rollouts: Rollouts, teachers: Teachers) -> list[Group]:
        """Truncated episodes of every task."""
        s, limit = self.settings, self.settings.tokens
        if limit is not None:  # no single turn may be longer either
            longest = min(limit, rollouts.turns.sampling.max_tokens)
            rollouts.turns.sampling = replace(rollouts.turns.sampling, max_tokens=longest)

        async def after_turn(episode: Episode) -> StopReason | None:
            full = limit is not None and episode.generated_tokens >= limit
            return StopReason.DEPTH_CAP if full else None

        played = await asyncio.gather(
            *(
                rollouts.play(task, i, depth=s.turns, after_turn=None if limit is None else after_turn)
                for task in tasks
                for i in range(s.group)
            )
        )
        for episode in played:
            self.tally.mean("truncated_rollouts", float(episode.stop == StopReason.DEPTH_CAP))
        return [Group(task, played[n * s.group : (n + 1) * s.group]) for n, task in enumerate(tasks)]

    async def credit(self, groups: Sequence[Group], scorer: Scorer, teachers: Teachers) -> list[Row]:
        """As OPD; tokens of the last turn beyond the limit are not trained."""
        await score_missing([episode for group in groups for episode in group.episodes], teachers, self.tally)
        return distillation_rows(
            groups, self.tally, coef=self.settings.coef, limits=self._limits, limit_reason="token_limit"
        )

    def _limits(self, episode: Episode) -> dict[int, float]:
        """Tokens of each turn within the token limit of the episode."""
        left = self.settings.tokens
        limits: dict[int, float] = {}
        for turn in episode.new_turns if left is not None else ():
            assert left is not None
            limits[turn.index] = left
            left = max(0, left - len(turn.response_ids))
        return limits
