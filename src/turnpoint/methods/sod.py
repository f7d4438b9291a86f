"""SOD (arXiv 2605.07725): on-policy distillation that trusts the teacher less the farther a step has drifted.

A_t = coef · w_k · (log pi_T - log pi_old) on the tokens of step (turn) k, with w_1 = 1 and
w_k = min(Π_{u<k} (d_u + ε) / (d_{u+1} + ε), cap), d_k the divergence of student and teacher on step k. d_k is the
mean over the step's tokens of exp(r) - 1 - r, r = log pi_T - log pi_old: Schulman's k3 estimate of
KL(student || teacher), which is never negative. There is no reward.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, PositiveFloat

from turnpoint.credit import sod_step_weights
from turnpoint.methods.opd import DistillationSettings
from turnpoint.methods.parts import Stateless, play_groups
from turnpoint.methods.protocol import Teachers
from turnpoint.methods.scoring import TEACHER, distillation_rows, score_missing
from turnpoint.methods.tally import Tally
from turnpoint.records import Episode, Group, Row, Task, Turn
from turnpoint.rollouts import Rollouts, Scorer

MAX_LOG_RATIO = 20.0
"""Log-ratios are cut here before ``exp``: one absurd token must not make a step's divergence infinite."""


class SODSettings(DistillationSettings):
    """Step-wise on-policy distillation."""

    title: ClassVar[str] = "SOD"
    paper: ClassVar[str] = "arXiv 2605.07725"
    terms: ClassVar[tuple[str, ...]] = ("on-policy distillation (reverse KL)", "step weights")

    kind: Literal["sod"] = "sod"
    cap: float = Field(default=1.5, ge=1.0)
    """Largest weight of a step."""
    epsilon: PositiveFloat = 1e-8
    """Added to every divergence."""

    def build(self) -> SOD:
        return SOD(self)


class SOD(Stateless):
    """See the module text."""

    def __init__(self, settings: SODSettings) -> None:
        self.settings = settings
        self.tally = Tally()

    async def collect(self, tasks: Sequence[Task], rollouts: Rollouts, teachers: Teachers) -> list[Group]:
        """``group`` episodes of every task, to their end."""
        return await play_groups(tasks, rollouts, self.settings.group)

    async def credit(self, groups: Sequence[Group], scorer: Scorer, teachers: Teachers) -> list[Row]:
        """The teacher reads each episode once; one row for each turn, weighted."""
        await score_missing([episode for group in groups for episode in group.episodes], teachers, self.tally)
        return distillation_rows(groups, self.tally, coef=self.settings.coef, weights=self._weights)

    def _weights(self, episode: Episode) -> dict[int, float]:
        """Weight of every scored turn by its index; the first scored one has 1."""
        turns = [turn for turn in episode.new_turns if TEACHER in turn.scores]
        weights = sod_step_weights(
            [step_divergence(turn) for turn in turns], cap=self.settings.cap, epsilon=self.settings.epsilon
        ).tolist()
        for turn, weight in zip(turns, weights, strict=True):
            self.tally.mean("step_weight", weight, len(turn.response_ids))
        return {turn.index: weight for turn, weight in zip(turns, weights, strict=True)}


def step_divergence(turn: Turn) -> float:
    """k3 estimate of KL(student || teacher) per token of a scored turn, in nats."""
    gap = np.asarray(turn.scores[TEACHER]) - np.asarray(turn.logprobs)
    gap = np.clip(gap, -MAX_LOG_RATIO, MAX_LOG_RATIO)
    return float(np.mean(np.maximum(np.expm1(gap) - gap, 0.0)))
