"""GiGPO (arXiv 2505.10978): episodes compared within their task, turns compared within the state they start from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, NonNegativeFloat

from turnpoint.credit import discounted_returns, gigpo_advantages, zero_variance_fraction
from turnpoint.methods.chain_credit import anchor
from turnpoint.methods.outcome import OutcomeSettings
from turnpoint.methods.parts import Stateless, act_row, play_groups, record_advantages, usable_episodes
from turnpoint.methods.protocol import Teachers
from turnpoint.methods.tally import Tally
from turnpoint.records import Group, Row, Task
from turnpoint.rollouts import Rollouts, Scorer


class GiGPOSettings(OutcomeSettings):
    """Group-in-group policy optimisation."""

    title: ClassVar[str] = "GiGPO"
    paper: ClassVar[str] = "arXiv 2505.10978"
    terms: ClassVar[tuple[str, ...]] = ("group-relative outcome", "anchor-state returns")

    kind: Literal["gigpo"] = "gigpo"
    gamma: float = Field(default=0.95, ge=0.0, le=1.0)
    """Discount between turns."""
    normalise: Literal["mean", "mean_std"] = "mean"
    """Subtract the mean, or also divide by the standard deviation, at both levels."""
    omega: NonNegativeFloat = 1.0
    """Weight of the step level."""
    episode_weight: NonNegativeFloat = 1.0
    """Weight of the episode level."""
    anchor: Literal["state", "observation"] = "state"
    """Turns are compared if the environment's state is equal, or if the observation is."""
    invalid_penalty: NonNegativeFloat = 0.0
    """Subtracted from score and return of turns without a parsable action."""

    def build(self) -> GiGPO:
        return GiGPO(self)


class GiGPO(Stateless):
    """``A = A^E + omega * A^S``."""

    def __init__(self, settings: GiGPOSettings) -> None:
        self.settings = settings
        self.tally = Tally()

    async def collect(self, tasks: Sequence[Task], rollouts: Rollouts, teachers: Teachers) -> list[Group]:
        """``group`` episodes of every task."""
        return await play_groups(tasks, rollouts, self.settings.group)

    async def credit(self, groups: Sequence[Group], scorer: Scorer, teachers: Teachers) -> list[Row]:
        """One row for each turn, all its tokens with the turn's advantage."""
        s = self.settings
        usable = usable_episodes(groups, self.tally)
        turns = [(owner, turn) for owner, (_, episode) in enumerate(usable) for turn in episode.turns]
        if not turns:
            return []
        rewards = [np.array([turn.reward for turn in episode.turns]) for _, episode in usable]
        scores = [float(np.sum(values)) for values in rewards]
        tasks = [number for number, _ in usable]
        penalties = [0.0 if turn.valid else s.invalid_penalty for _, turn in turns]
        advantages = gigpo_advantages(
            scores,
            tasks,
            [owner for owner, _ in turns],
            np.concatenate([discounted_returns(values, s.gamma) for values in rewards]),
            [anchor(turn, s.anchor) for _, turn in turns],
            normalise=s.normalise,
            baseline=s.baseline,
            omega=s.omega,
            episode_weight=s.episode_weight,
            penalties=penalties if any(penalties) else None,
        )
        self.tally.mean("zero_variance_groups", zero_variance_fraction(scores, tasks))
        pairs = [
            (turn, act_row(usable[owner][1], turn, np.full(len(turn.response_ids), value)))
            for (owner, turn), value in zip(turns, advantages, strict=True)
        ]
        record_advantages(pairs)
        return [row for _, row in pairs]
