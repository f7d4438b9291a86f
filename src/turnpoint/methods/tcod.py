"""TCOD (arXiv 2604.24005): a curriculum over the depth of on-policy distillation.

*Front to back*: the student plays and trains the first k turns, and k grows. *Back to front*: an expert plays
all turns but the last few, the student goes on from there, and the expert's part shrinks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import PositiveInt, model_validator

from turnpoint.config import ConfigError
from turnpoint.credit import b2f_expert_turns, f2b_depth
from turnpoint.envs import Capabilities, Knowledge
from turnpoint.methods.experts import Experts, read_experts
from turnpoint.methods.opd import DistillationSettings
from turnpoint.methods.parts import Stateless, start_failed
from turnpoint.methods.protocol import Teachers
from turnpoint.methods.scoring import distillation_rows, score_missing
from turnpoint.methods.tally import Tally
from turnpoint.records import Episode, Group, Row, Task
from turnpoint.rollouts import Rollouts, Scorer, Start


class TCODSettings(DistillationSettings):
    """On-policy distillation with a depth curriculum."""

    title: ClassVar[str] = "TCOD"
    paper: ClassVar[str] = "arXiv 2604.24005"
    terms: ClassVar[tuple[str, ...]] = ("on-policy distillation (reverse KL)", "depth curriculum")

    kind: Literal["tcod"] = "tcod"
    direction: Literal["f2b", "b2f"] = "f2b"
    """``f2b``: the first k turns, k growing; ``b2f``: the turns after an expert's, whose number shrinks."""
    interval: PositiveInt = 2
    """eta: training steps for each further turn."""
    start: PositiveInt = 1
    """k at the first step (``f2b``)."""
    knowledge: Knowledge = "observed"
    """What the oracle expert may know (``b2f``): what the episode has shown, or the hidden state as well."""
    demonstrations: Path | None = None
    """Episode file whose successful episodes are the expert's (``b2f``); null = the environment's oracle plays."""

    @model_validator(mode="after")
    def _used(self) -> Self:
        if self.direction == "f2b" and self.demonstrations is not None:
            raise ValueError(
                "direction is f2b, which has no expert; remove demonstrations, or set direction: b2f"
            )
        return self

    def check(self, capabilities: Capabilities, teachers: Teachers) -> None:
        super().check(capabilities, teachers)
        if self.direction == "f2b":
            return
        if not (capabilities.deterministic or (capabilities.snapshots and self.demonstrations is None)):
            raise ConfigError(
                "method.direction is b2f, but the state after an expert's turns cannot be brought back in this "
                "environment; set method.direction to f2b"
            )
        if self.demonstrations is None and not capabilities.oracle:
            raise ConfigError(
                "method.direction is b2f, but this environment has no oracle to play the expert's turns; set "
                "method.demonstrations to a file of successful episodes, or method.direction to f2b"
            )

        if self.demonstrations is not None:
            read_experts(self.demonstrations)  # an unusable file is an error before anything starts

    def build(self) -> TCOD:
        return TCOD(self)


class TCOD(Stateless):
    """OPD on a part of each episode; which part follows from the number of the step alone."""

    def __init__(self, settings: TCODSettings) -> None:
        self.settings = settings
        self.tally = Tally()
        self._experts = Experts(settings.demonstrations, settings.knowledge)

    async def collect(self, tasks: Sequence[Task], rollouts: Rollouts, teachers: Teachers) -> list[Group]:
        """The student's part of each episode."""
        s = self.settings
        play = self._play_first if s.direction == "f2b" else self._play_last
        return list(await asyncio.gather(*(play(task, rollouts) for task in tasks)))

    async def _play_first(self, task: Task, rollouts: Rollouts) -> Group:
        """F2B: ``k(n) = min(k_start + n // eta, T_max)`` turns."""
        s = self.settings
        depth = f2b_depth(rollouts.step, max_turns=rollouts.max_turns, start=s.start, interval=s.interval)
        self.tally.mean("depth", depth)
        episodes = await asyncio.gather(*(rollouts.play(task, i, depth=depth) for i in range(s.group)))
        return Group(task, list(episodes))

    async def _play_last(self, task: Task, rollouts: Rollouts) -> Group:
        """B2F: after ``max(0, L - 1 - n // eta)`` turns of an expert whose episode has L turns."""
        expert = await self._experts.episode(task, rollouts)
        start = None
        if expert is None:
            self.tally.add("tasks_without_expert")
        else:
            lead = b2f_expert_turns(
                rollouts.step, expert_turns=len(expert.turns), interval=self.settings.interval
            )
            self.tally.mean("expert_turns", lead)
            start = Start(replace(expert, task=task), lead) if lead else None
        episodes = await asyncio.gather(
            *(self._play_from(task, i, start, rollouts) for i in range(self.settings.group))
        )
        return Group(task, list(episodes))

    async def _play_from(self, task: Task, index: int, start: Start | None, rollouts: Rollouts) -> Episode:
        episode = await rollouts.play(task, index, start=start)
        if start is None or not start_failed(episode):
            return episode
        self.tally.add(f"restore_failed/{episode.stop}")
        return await rollouts.play(task, index, name="fresh")

    async def credit(self, groups: Sequence[Group], scorer: Scorer, teachers: Teachers) -> list[Row]:
        """As OPD, on the student's turns."""
        await score_missing([episode for group in groups for episode in group.episodes], teachers, self.tally)
        return distillation_rows(groups, self.tally, coef=self.settings.coef)
