"""SDAR (arXiv 2605.15155): GRPO, and a gated push towards the tokens that an informed teacher prefers.

The auxiliary loss is -coef · g · log pi with the detached gate g = sigmoid(β (log pi_T - log pi_S)). Its gradient is
that of an advantage coef · g, so it always raises the sampled token: by half the coefficient where teacher
and student agree, hardly at all where the teacher finds the token unlikely.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from pydantic import NonNegativeFloat, PositiveFloat

from turnpoint.credit import sdar_advantages, sdar_gate
from turnpoint.methods.parts import record_advantages
from turnpoint.methods.protocol import Teachers
from turnpoint.methods.self_teacher import SelfTaught, SelfTaughtSettings, shift
from turnpoint.records import Group, Row
from turnpoint.rollouts import Scorer


class SDARSettings(SelfTaughtSettings):
    """Self-distilled agentic reinforcement learning."""

    title: ClassVar[str] = "SDAR"
    paper: ClassVar[str] = "arXiv 2605.15155"
    terms: ClassVar[tuple[str, ...]] = ("group-relative outcome", "gated self-distillation")

    kind: Literal["sdar"] = "sdar"
    coef: NonNegativeFloat = 0.01
    """Weight of the gated term; 0 is GRPO."""
    beta: PositiveFloat = 5.0
    """Sharpness of the gate."""

    @property
    def distils(self) -> bool:
        return self.coef > 0

    def build(self) -> SDAR:
        return SDAR(self)


class SDAR(SelfTaught):
    """See the module text."""

    def __init__(self, settings: SDARSettings) -> None:
        super().__init__(settings)
        self.settings = settings

    async def credit(self, groups: Sequence[Group], scorer: Scorer, teachers: Teachers) -> list[Row]:
        """One row for each turn, the gated term added on its tokens."""
        s = self.settings
        pairs = s.outcome_rows(groups, self.tally)
        if s.distils:
            scored = await self.teacher_logprobs(pairs, groups, scorer)
            for (turn, row), teacher in zip(pairs, scored, strict=True):
                if teacher is None:
                    continue
                gate = sdar_gate(teacher, row.old_logprobs, beta=s.beta)
                self.tally.mean("gate", float(np.mean(gate)), len(gate))
                shift(
                    turn,
                    row,
                    sdar_advantages(row.advantages, teacher, row.old_logprobs, coef=s.coef, beta=s.beta),
                )
        record_advantages(pairs)
        return [row for _, row in pairs]
