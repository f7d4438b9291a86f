"""OPID (arXiv 2606.26790): skills read off finished episodes, distilled back into the tokens that were sampled.

A naming teacher condenses each episode into an *episode skill* (its lesson) and *step skills* (the lesson, or
else the gold action, of single turns). The student itself, reading a skill, scores its own tokens:
A = A_episode + w_e Δ(episode skill) + w_s Δ(step skill), Δ = log pi(y | c + skill) - log pi(y | c).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field, NonNegativeFloat

from turnpoint.credit import opid_advantages
from turnpoint.envs import Capabilities
from turnpoint.methods.naming import name_pivots
from turnpoint.methods.outcome import OutcomeSettings
from turnpoint.methods.parts import Stateless, play_groups, record_advantages
from turnpoint.methods.privileged import episode_lesson, step_lesson
from turnpoint.methods.protocol import Teachers
from turnpoint.methods.self_teacher import PairedRows, score_insertions, shift
from turnpoint.methods.tally import Tally
from turnpoint.policy.protocol import Floats
from turnpoint.records import Episode, Group, Row, Task
from turnpoint.rollouts import Rollouts, Scorer


class OPIDSettings(OutcomeSettings):
    """On-policy distillation of skills from hindsight."""

    title: ClassVar[str] = "OPID"
    paper: ClassVar[str] = "arXiv 2606.26790"
    terms: ClassVar[tuple[str, ...]] = (
        "group-relative outcome",
        "episode skill (reverse KL)",
        "step skill (reverse KL)",
    )

    kind: Literal["opid"] = "opid"
    normalise: Literal["mean", "mean_std"] = "mean"
    """Subtract the group's mean, or also divide by its standard deviation."""
    episode_weight: NonNegativeFloat = 0.001
    """Weight of the episode skill."""
    step_weight: NonNegativeFloat = 0.001
    """Weight of the step skill."""
    max_steps: int = Field(default=5, ge=1)
    """Most turns of an episode that the teacher may name."""

    @property
    def distils(self) -> bool:
        """Whether any skill counts; otherwise no teacher is asked."""
        return self.episode_weight > 0 or self.step_weight > 0

    @property
    def asks_naming(self) -> bool:
        return self.distils

    def check(self, capabilities: Capabilities, teachers: Teachers) -> None:
        if self.asks_naming:
            teachers.require_naming(self.kind)

    def build(self) -> OPID:
        return OPID(self)


class OPID(Stateless):
    """See the module text."""

    def __init__(self, settings: OPIDSettings) -> None:
        self.settings = settings
        self.tally = Tally()

    async def collect(self, tasks: Sequence[Task], rollouts: Rollouts, teachers: Teachers) -> list[Group]:
        """``group`` episodes of every task and a report on each."""
        groups = await play_groups(tasks, rollouts, self.settings.group)
        if self.settings.asks_naming:
            naming = teachers.require_naming(self.settings.kind)
            await name_pivots(groups, naming, self.settings.max_steps, self.tally, rollouts)
        return groups

    async def credit(self, groups: Sequence[Group], scorer: Scorer, teachers: Teachers) -> list[Row]:
        """One row for each turn with the terms of the skills that were found for it."""
        s = self.settings
        pairs = s.outcome_rows(groups, self.tally)
        if s.distils:
            episodes = {episode.id: episode for group in groups for episode in group.episodes}
            by_episode = await self._score("episode_skill", s.episode_weight, pairs, episodes, scorer)
            by_step = await self._score("step_skill", s.step_weight, pairs, episodes, scorer)
            for (turn, row), whole, step in zip(pairs, by_episode, by_step, strict=True):
                if whole is None and step is None:
                    continue
                advantages = opid_advantages(
                    row.advantages,
                    row.old_logprobs,
                    whole,
                    step,
                    episode_weight=s.episode_weight,
                    step_weight=s.step_weight,
                )
                shift(turn, row, advantages)
        record_advantages(pairs)
        return [row for _, row in pairs]

    async def _score(
        self, name: str, weight: float, pairs: PairedRows, episodes: dict[str, Episode], scorer: Scorer
    ) -> list[Floats | None]:
        """Log-probs of every row under one kind of skill, None where there is none."""
        if weight == 0:
            return [None] * len(pairs)
        find = episode_lesson if name == "episode_skill" else step_lesson
        inserted = [find(turn, episodes[row.episode], scorer.prompter) for turn, row in pairs]
        return await score_insertions(name, pairs, inserted, scorer, self.tally)
