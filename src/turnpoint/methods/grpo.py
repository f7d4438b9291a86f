"""GRPO (arXiv 2402.03300): the outcome of an episode relative to its group, on every token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field, NonNegativeFloat

from turnpoint.methods.parts import Stateless, outcome_rows, play_groups, record_advantages
from turnpoint.methods.protocol import MethodSettings, Teachers
from turnpoint.methods.tally import Tally
from turnpoint.records import Group, Row, Task
from turnpoint.rollouts import Rollouts, Scorer


class GRPOSettings(MethodSettings):
    """Group-relative policy optimisation."""

    title: ClassVar[str] = "GRPO"
    paper: ClassVar[str] = "arXiv 2402.03300"
    terms: ClassVar[tuple[str, ...]] = ("group-relative outcome",)

    kind: Literal["grpo"] = "grpo"
    group: int = Field(default=8, ge=1)
    """Episodes per task; a group of one gives no signal."""
    normalise: Literal["mean", "mean_std"] = "mean_std"
    """Subtract the group's mean, or also divide by its standard deviation."""
    baseline: Literal["episodes", "rows"] = "episodes"
    """Count every episode once in the baseline, or once for each of its turns."""
    invalid_penalty: NonNegativeFloat = 0.0
    """Subtracted from the score of turns without a parsable action, before normalisation."""

    def build(self) -> GRPO:
        return GRPO(self)


class GRPO(Stateless):
    """``A = (R - mean) / (std + 1e-6)`` over the episodes of a task."""

    def __init__(self, settings: GRPOSettings) -> None:
        self.settings = settings
        self.tally = Tally()

    async def collect(self, tasks: Sequence[Task], rollouts: Rollouts, teachers: Teachers) -> list[Group]:
        """``group`` episodes of every task."""
        return await play_groups(tasks, rollouts, self.settings.group)

    async def credit(self, groups: Sequence[Group], scorer: Scorer, teachers: Teachers) -> list[Row]:
        """One row for each turn, all its tokens with the episode's advantage."""
        s = self.settings
        pairs = outcome_rows(
            groups, self.tally, normalise=s.normalise, baseline=s.baseline, invalid_penalty=s.invalid_penalty
        )
        record_advantages(pairs)
        return [row for _, row in pairs]
