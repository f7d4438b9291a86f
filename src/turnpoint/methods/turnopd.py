"""turnOPD (arXiv 2607.05804): rollouts only as deep as there is something to learn, and turns weighed evenly.

Un-capped probe rollouts tell at which turns student and teacher differ and by when episodes succeed; from both
follows the cap on training rollouts. The weight of a turn moves from its share of tokens to an equal share.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from turnpoint.credit import (
    blended_token_weights,
    coverage_depth,
    depth_cap,
    depth_horizon,
    depth_profile,
    effective_depth,
    linear_alpha,
    smoothed_depth,
)
from turnpoint.methods.opd import DistillationSettings
from turnpoint.methods.parts import UNUSABLE
from turnpoint.methods.protocol import Teachers
from turnpoint.methods.scoring import TEACHER, distillation_rows, score_missing
from turnpoint.methods.tally import Tally
from turnpoint.records import Episode, Group, Row, Task
from turnpoint.rollouts import Rollouts, Scorer


class TurnOPDSettings(DistillationSettings):
    """On-policy distillation with an adaptive depth and blended turn weights."""

    title: ClassVar[str] = "turnOPD"
    paper: ClassVar[str] = "arXiv 2607.05804"
    terms: ClassVar[tuple[str, ...]] = (
        "on-policy distillation (reverse KL)",
        "adaptive depth cap",
        "blended turn weights",
    )

    kind: Literal["turnopd"] = "turnopd"
    warmup_steps: NonNegativeInt = 3
    """First steps without a cap; all of them probe."""
    probe_every: PositiveInt = 8
    """Steps between later probes, whose rollouts are not capped either."""
    rate: float = Field(default=0.3, gt=0.0, le=1.0)
    """Weight of a new probe in the moving average of the depth."""
    coverage: float = Field(default=0.8, gt=0.0, le=1.0)
    """Share of successful probes that must be complete within the depth."""
    coverage_minimum: PositiveInt = 8
    """Fewer successes say nothing about the depth."""
    lowest: PositiveInt = 2
    """Least cap on turns."""
    highest: PositiveInt = 50
    """Largest cap on turns."""
    blend_steps: PositiveInt = 100
    """Steps over which the turn weights go linearly from shares of tokens to equal shares."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.lowest > self.highest:
            raise ValueError(
                f"lowest is {self.lowest}, above highest ({self.highest}); set it to at most highest"
            )
        return self

    def build(self) -> TurnOPD:
        return TurnOPD(self)


class TurnOPD:
    """OPD under a moving cap on turns."""

    def __init__(self, settings: TurnOPDSettings) -> None:
        self.settings = settings
        self.tally = Tally()
        self._depth: float | None = None
        """Moving average of the horizon, a 0-based turn index."""
        self._alpha = 0.0
        self._probing = False

    async def collect(self, tasks: Sequence[Task], rollouts: Rollouts, teachers: Teachers) -> list[Group]:
        """Capped rollouts; in a probing step un-capped ones."""
        s, step = self.settings, rollouts.step
        self._alpha = linear_alpha(step, s.blend_steps)
        self._probing = self._depth is None or step < s.warmup_steps or step % s.probe_every == 0
        cap = None if self._probing else self.cap
        self.tally.mean("depth_cap", rollouts.max_turns if cap is None else min(cap, rollouts.max_turns))
        self.tally.mean("turn_weight_alpha", self._alpha)
        played = await asyncio.gather(
            *(rollouts.play(task, i, depth=cap) for task in tasks for i in range(s.group))
        )
        return [Group(task, played[n * s.group : (n + 1) * s.group]) for n, task in enumerate(tasks)]

    @property
    def cap(self) -> int | None:
        """Most turns of a training rollout: ``clip(round(H) + 1, lowest, highest)``; None before any probe."""
        s = self.settings
        return None if self._depth is None else depth_cap(self._depth, low=s.lowest, high=s.highest)

    async def credit(self, groups: Sequence[Group], scorer: Scorer, teachers: Teachers) -> list[Row]:
        """As OPD, each turn's tokens with the turn's weight; probes move the depth."""
        episodes = [episode for group in groups for episode in group.episodes]
        await score_missing(episodes, teachers, self.tally)
        if self._probing:
            self._learn([episode for episode in episodes if episode.stop not in UNUSABLE])
        return distillation_rows(groups, self.tally, coef=self.settings.coef, weights=self._weights)

    def _weights(self, episode: Episode) -> dict[int, float]:
        turns = [turn for turn in episode.new_turns if TEACHER in turn.scores]
        if not turns:
            return {}
        weights = blended_token_weights([len(turn.response_ids) for turn in turns], self._alpha)
        return {turn.index: float(weight) for turn, weight in zip(turns, weights, strict=True)}

    def _learn(self, probes: Sequence[Episode]) -> None:
        """Update the moving average of the depth from un-capped rollouts."""
        s, divergence, counts = self.settings, *divergence_by_turn(probes)
        if not len(counts) or not counts[0]:
            return  # the teacher answered for no first turn
        effective = effective_depth(depth_profile(divergence, counts))
        last_turns = [len(episode.turns) - 1 for episode in probes if episode.success]
        covering = coverage_depth(last_turns, share=s.coverage, minimum=s.coverage_minimum)
        horizon = depth_horizon(effective, covering)
        for name, value in (("effective", effective), ("coverage", covering)):
            if value is not None:
                self.tally.mean(f"depth_{name}", value)
        if horizon is not None:
            self._depth = smoothed_depth(self._depth, horizon, rate=s.rate)

    def state_dict(self) -> dict[str, Any]:
        """The moving average; everything else follows from the step."""
        return {"depth": self._depth}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of ``state_dict``."""
        self._depth = state["depth"]


def divergence_by_turn(episodes: Sequence[Episode]) -> tuple[np.ndarray, np.ndarray]:
    """K_t and n_t [H]: mean over episodes of the turn's mean log pi_old - log pi_T, and how many have that turn."""
    by_turn: dict[int, list[float]] = {}
    for episode in episodes:
        for turn in episode.new_turns:
            if TEACHER in turn.scores:
                gap = np.mean(np.asarray(turn.logprobs) - np.asarray(turn.scores[TEACHER]))
                by_turn.setdefault(turn.index, []).append(float(gap))
    depth = 1 + max(by_turn, default=-1)
    values = [by_turn.get(turn, []) for turn in range(depth)]
    means = np.array([np.mean(gaps) if gaps else 0.0 for gaps in values])
    return means, np.array([float(len(gaps)) for gaps in values])
