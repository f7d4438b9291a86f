"""RLSD (arXiv 2604.03128): the reward says in which direction, a self teacher says how far, token by token.

With Δ = log pi_T - log pi_S on the sampled tokens, a token weighs w = clip(exp(sign(A) Δ), 1 - c, 1 + c) and gets
A ((1 - λ) + λ w): tokens that the informed teacher agrees with are credited more by success and blamed
less by failure. The sign of A never changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from turnpoint.credit import rlsd_advantages
from turnpoint.methods.parts import record_advantages
from turnpoint.methods.protocol import Teachers
from turnpoint.methods.self_teacher import SelfTaught, SelfTaughtSettings, shift
from turnpoint.records import Group, Row
from turnpoint.rollouts import Scorer


class RLSDSettings(SelfTaughtSettings):
    """Reinforcement learning with self-distilled token weights."""

    title: ClassVar[str] = "RLSD"
    paper: ClassVar[str] = "arXiv 2604.03128"
    terms: ClassVar[tuple[str, ...]] = ("group-relative outcome", "token weights by a self teacher")

    kind: Literal["rlsd"] = "rlsd"
    mix: float = Field(default=0.5, ge=0.0, le=1.0)
    """λ: share of the weighted advantage; 0 is GRPO."""
    clip: float = Field(default=0.2, ge=0.0, le=1.0)
    """Largest distance of a weight from 1."""

    @property
    def distils(self) -> bool:
        return self.mix > 0

    def build(self) -> RLSD:
        return RLSD(self)


class RLSD(SelfTaught):
    """See the module text."""

    def __init__(self, settings: RLSDSettings) -> None:
        super().__init__(settings)
        self.settings = settings

    async def credit(self, groups: Sequence[Group], scorer: Scorer, teachers: Teachers) -> list[Row]:
        """One row for each turn, its tokens weighted."""
        s = self.settings
        pairs = s.outcome_rows(groups, self.tally)
        # A weight of nothing is nothing: rows without an outcome need no teacher.
        moved = [(turn, row) for turn, row in pairs if row.advantages.any()]
        if s.distils and moved:
            scored = await self.teacher_logprobs(moved, groups, scorer)
            for (turn, row), teacher in zip(moved, scored, strict=True):
                if teacher is not None:
                    shift(
                        turn,
                        row,
                        rlsd_advantages(row.advantages, teacher, row.old_logprobs, clip=s.clip, mix=s.mix),
                    )
        record_advantages(pairs)
        return [row for _, row in pairs]
