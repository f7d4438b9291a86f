"""AgentOPSD (arXiv 2608.05987): a self teacher's belief in success, updated turn by turn, scales the outcome.

Δ_k, the teacher's minus the student's log-prob of turn k, moves the belief V_k = sigmoid(logit(prior) + Σ_{j<=k} Δ_j).
Turns that raise it more than the episode's others (z, the standard score of V_k - V_{k-1}) get a larger part of
a positive advantage and a smaller one of a negative: A_k = A ((1 - λ) + λ clip(1 + s sign(A) z_k, 1 - c, 1 + c)).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, NonNegativeFloat

from turnpoint.credit import agentopsd_advantages
from turnpoint.methods.parts import record_advantages
from turnpoint.methods.protocol import Teachers
from turnpoint.methods.self_teacher import PairedRows, SelfTaught, SelfTaughtSettings, shift
from turnpoint.policy.protocol import Floats
from turnpoint.records import Group, Row
from turnpoint.rollouts import Scorer


class AgentOPSDSettings(SelfTaughtSettings):
    """Turn-level weights by on-policy self-distillation."""

    title: ClassVar[str] = "AgentOPSD"
    paper: ClassVar[str] = "arXiv 2608.05987"
    terms: ClassVar[tuple[str, ...]] = ("group-relative outcome", "turn weights by a self teacher")

    kind: Literal["agentopsd"] = "agentopsd"
    mix: float = Field(default=0.5, ge=0.0, le=1.0)
    """λ: share of the weighted advantage; 0 is GRPO."""
    prior: float = Field(default=0.5, gt=0.0, lt=1.0)
    """Belief in success before the first turn."""
    scale: NonNegativeFloat = 0.2
    """What one standard deviation of a turn's gain changes."""
    clip: float = Field(default=0.2, ge=0.0, le=1.0)
    """Largest distance of a turn's weight from 1."""
    turn_score: Literal["sum", "mean"] = "sum"
    """Δ of a turn: sum over its tokens (the turn's log-likelihood ratio), or their mean for long replies."""

    @property
    def distils(self) -> bool:
        return self.mix > 0

    def build(self) -> AgentOPSD:
        return AgentOPSD(self)


class AgentOPSD(SelfTaught):
    """See the module text."""

    def __init__(self, settings: AgentOPSDSettings) -> None:
        super().__init__(settings)
        self.settings = settings

    async def credit(self, groups: Sequence[Group], scorer: Scorer, teachers: Teachers) -> list[Row]:
        """One row for each turn, all its tokens with the turn's share of the outcome."""
        pairs = self.settings.outcome_rows(groups, self.tally)
        # A share of nothing is nothing: episodes without an outcome need no teacher.
        moved = {row.episode for _, row in pairs if row.advantages.any()}
        taught = [(turn, row) for turn, row in pairs if row.episode in moved]
        if self.settings.distils and taught:
            scored = await self.teacher_logprobs(taught, groups, scorer)
            for name in dict.fromkeys(row.episode for _, row in taught):
                of = [i for i, (_, row) in enumerate(taught) if row.episode == name]
                self._weigh([taught[i] for i in of], [scored[i] for i in of])
        record_advantages(pairs)
        return [row for _, row in pairs]

    def _weigh(self, pairs: PairedRows, teachers: Sequence[Floats | None]) -> None:
        """Scale the rows of one episode, in order of its turns; a turn without a teacher moves no belief."""
        s = self.settings
        reduce = np.sum if s.turn_score == "sum" else np.mean
        differences = [
            0.0 if teacher is None else float(reduce(teacher - row.old_logprobs))
            for (_, row), teacher in zip(pairs, teachers, strict=True)
        ]
        advantages = agentopsd_advantages(
            [row.advantages[0] for _, row in pairs],
            differences,
            mix=s.mix,
            prior=s.prior,
            scale=s.scale,
            clip=s.clip,
        )
        for (turn, row), advantage in zip(pairs, advantages, strict=True):
            shift(turn, row, np.full(len(row.advantages), advantage))
