"""OPSD and SDPO (arXiv 2601.18734, 2601.20802): on-policy self-distillation from the privileged student.

The same weights, reading a privileged text, teach what to say without it. Either by the *sampled* difference,
an advantage coef · (log pi_T - log pi_old) on every sampled token (reverse KL in expectation), or by a *divergence*
between the next-token distributions at every position, which does not depend on the sampled token and so is
a loss: forward KL, reverse KL or the generalised Jensen-Shannon divergence, over the whole vocabulary or the
teacher's top k tokens and one bucket for all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, Self

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from turnpoint.config import ConfigError, Settings
from turnpoint.credit import reverse_kl_advantages
from turnpoint.methods.parts import record_advantages
from turnpoint.methods.protocol import Teachers
from turnpoint.methods.self_teacher import (
    PairedRows,
    SelfTaught,
    SelfTaughtSettings,
    insertion_requests,
    shift,
)
from turnpoint.policy import PolicyCapabilities
from turnpoint.policy.settings import PolicySettings
from turnpoint.prompts import PromptSettings
from turnpoint.records import DivergenceSpec, Group, Row
from turnpoint.rollouts import Scorer


class DivergenceSettings(Settings):
    """A divergence between the distributions of teacher and student."""

    direction: Literal["forward", "reverse", "jsd"] = "jsd"
    """``forward``: KL(teacher || student); ``reverse``: KL(student || teacher); ``jsd``: between the two."""
    beta: float = Field(default=0.5, gt=0.0, lt=1.0)
    """Weight of the teacher in the mixture of ``jsd``; near 0 it acts like forward, near 1 like reverse."""
    top_k: PositiveInt | None = None
    """Compare the teacher's k likeliest tokens and all others as one; null = the whole vocabulary."""

    @model_validator(mode="after")
    def _beta_used(self) -> Self:
        if self.direction != "jsd" and self.beta != 0.5:
            raise ValueError(
                f"beta is {self.beta}, but direction {self.direction} has no mixture; remove beta or set direction: jsd"
            )
        return self


class OPSDSettings(SelfTaughtSettings):
    """On-policy self-distillation with privileged text."""

    title: ClassVar[str] = "OPSD / SDPO"
    paper: ClassVar[str] = "arXiv 2601.18734, 2601.20802"
    terms: ClassVar[tuple[str, ...]] = ("self-distillation (sampled reverse KL, or a divergence loss)",)

    kind: Literal["opsd"] = "opsd"
    coef: PositiveFloat = 1.0
    """Weight of the sampled difference, or of the divergence in the loss."""
    divergence: DivergenceSettings | None = None
    """Compare whole distributions by this divergence; null = the sampled difference as an advantage."""
    outcome: NonNegativeFloat = 0.0
    """Weight of the group-relative outcome beside it; 0 = no reward at all, as published."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.outcome == 0 and self.invalid_penalty > 0:
            raise ValueError("invalid_penalty is part of the outcome, whose weight is 0; set outcome above 0")
        if self.divergence is not None and self.privileged == "scoring":
            raise ValueError(
                "a divergence needs the student's own distributions, and privileged is scoring; set privileged to "
                "sibling, lesson, gold or feedback, or divergence to null"
            )
        return self

    def check_backend(
        self, policy: PolicySettings, capabilities: PolicyCapabilities, prompt: PromptSettings
    ) -> None:
        if self.divergence is not None and not capabilities.full_distribution:
            raise ConfigError(
                f"method.divergence compares whole distributions, which policy.kind {policy.kind} cannot; set "
                "method.divergence to null for the sampled difference, or policy.kind to local"
            )

    def build(self) -> OPSD:
        return OPSD(self)


class OPSD(SelfTaught):
    """See the module text."""

    def __init__(self, settings: OPSDSettings) -> None:
        super().__init__(settings)
        self.settings = settings

    async def credit(self, groups: Sequence[Group], scorer: Scorer, teachers: Teachers) -> list[Row]:
        """One row for each turn; what has no privileged text keeps the weighted outcome alone."""
        pairs = self.settings.outcome_rows(groups, self.tally)
        for _, row in pairs:
            row.advantages = self.settings.outcome * row.advantages
        if self.settings.divergence is None:
            await self._add_sampled(pairs, groups, scorer)
        else:
            self._add_divergence(self.settings.divergence, pairs, groups, scorer)
        record_advantages(pairs)
        return [row for _, row in pairs]

    async def _add_sampled(self, pairs: PairedRows, groups: Sequence[Group], scorer: Scorer) -> None:
        scored = await self.teacher_logprobs(pairs, groups, scorer)
        for (turn, row), teacher in zip(pairs, scored, strict=True):
            if teacher is not None:
                term = reverse_kl_advantages(teacher, row.old_logprobs, coef=self.settings.coef)
                shift(turn, row, row.advantages + term)

    def _add_divergence(
        self, settings: DivergenceSettings, pairs: PairedRows, groups: Sequence[Group], scorer: Scorer
    ) -> None:
        """The update compares the distributions; here the rows are only told where the teacher reads."""
        spec = DivergenceSpec(settings.direction, settings.beta, settings.top_k, self.settings.coef)
        inserted = self.insertions(pairs, groups, scorer.prompter)
        requests = insertion_requests("teacher", pairs, inserted, scorer, self.tally)
        for (_, row), request in zip(pairs, requests, strict=True):
            if request is not None:
                row.teacher_prompt_ids, row.divergence = request.prompt_ids, spec
                self.tally.add("teacher_tokens", len(row.response_ids))
        if self.tally.get("teacher_tokens") == 0:
            self.tally.add("signal_empty/teacher")
