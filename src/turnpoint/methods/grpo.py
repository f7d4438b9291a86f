"""GRPO (arXiv 2402.03300): the outcome of an episode relative to its group, on every token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import field_validator

from turnpoint.envs import Capabilities
from turnpoint.methods.outcome import OutcomeSettings
from turnpoint.methods.parts import play_groups, record_advantages
from turnpoint.methods.protocol import Teachers
from turnpoint.methods.rules import Stopping, StopRule, StopSettings, whole_turns
from turnpoint.methods.tally import Tally
from turnpoint.records import Group, Row, Task
from turnpoint.rollouts import Rollouts, Scorer


class GRPOSettings(OutcomeSettings):
    """Group-relative policy optimisation."""

    title: ClassVar[str] = "GRPO"
    paper: ClassVar[str] = "arXiv 2402.03300"
    terms: ClassVar[tuple[str, ...]] = ("group-relative outcome",)

    kind: Literal["grpo"] = "grpo"
    stop: StopSettings | None = None
    """End episodes that a scoring teacher finds out of its support (STRIDE's rule); they have no outcome, so that
    they are in no baseline and train nothing. null = off."""

    _whole_turns = field_validator("stop")(whole_turns)

    @property
    def asks_scoring(self) -> bool:
        return self.stop is not None

    def check(self, capabilities: Capabilities, teachers: Teachers) -> None:
        if self.stop is not None:
            self.stop.check(self.kind, teachers)

    def build(self) -> GRPO:
        return GRPO(self)


class GRPO(Stopping):
    """``A = (R - mean) / (std + 1e-6)`` over the episodes of a task."""

    def __init__(self, settings: GRPOSettings) -> None:
        self.settings = settings
        self.tally = Tally()
        self.stop = StopRule(settings.stop, self.tally)

    async def collect(self, tasks: Sequence[Task], rollouts: Rollouts, teachers: Teachers) -> list[Group]:
        """``group`` episodes of every task."""
        watch = self.stop.watch(rollouts, teachers)
        groups = await play_groups(tasks, rollouts, self.settings.group, watch)
        await self.stop.learn([episode for group in groups for episode in group.episodes], teachers)
        return groups

    async def credit(self, groups: Sequence[Group], scorer: Scorer, teachers: Teachers) -> list[Row]:
        """One row for each turn, all its tokens with the episode's advantage."""
        pairs = self.settings.outcome_rows(groups, self.tally)
        record_advantages(pairs)
        return [row for _, row in pairs]
