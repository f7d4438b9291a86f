"""STRIDE (arXiv 2609.14636): distil where the teacher still knows what it is talking about.

A rollout stops once the teacher's cumulative score of its new turns falls below lambda: what would follow is out
of the teacher's support and would be scored badly. The next rollout of the task does not begin anew: it
reuses the leading turns that the teacher finds correct, up to the weakest of them, and resamples from there. So the
window of turns that is sampled and trained moves through the task as the student learns. The advantage is
that of on-policy distillation; reused turns are context only.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import model_validator

from turnpoint.config import ConfigError
from turnpoint.envs import Capabilities
from turnpoint.methods.opd import DistillationSettings
from turnpoint.methods.parts import start_failed
from turnpoint.methods.prefix_buffer import PrefixBuffer, RestartSettings
from turnpoint.methods.protocol import Teachers
from turnpoint.methods.rules import StopRule, StopSettings
from turnpoint.methods.scoring import distillation_rows, score_missing
from turnpoint.methods.tally import Tally
from turnpoint.records import Episode, Group, Row, StopReason, Task
from turnpoint.rollouts import Rollouts, Scorer


class StrideSettings(DistillationSettings):
    """On-policy distillation inside a moving window of turns."""

    title: ClassVar[str] = "STRIDE"
    paper: ClassVar[str] = "arXiv 2609.14636"
    terms: ClassVar[tuple[str, ...]] = ("on-policy distillation (reverse KL)", "early stop", "prefix restart")

    kind: Literal["stride"] = "stride"
    stop: StopSettings = StopSettings()
    """When a rollout ends early."""
    restart: RestartSettings | None = RestartSettings()
    """Where the next rollout of a task begins; null = always from the start."""

    @model_validator(mode="after")
    def _no_restart_within_a_turn(self) -> Self:
        if self.stop.unit == "token" and self.restart is not None:
            raise ValueError(
                "stop.unit is token, for tasks of a single turn, but restart reuses whole turns; set restart: null, "
                "or stop.unit: turn"
            )
        return self

    def check(self, capabilities: Capabilities, teachers: Teachers) -> None:
        self.stop.check(self.kind, teachers)
        if self.restart is not None and not (capabilities.deterministic or capabilities.snapshots):
            raise ConfigError(
                "method.restart reuses turns of earlier rollouts, but this environment can neither be restored nor "
                "replayed; set method.restart to null"
            )

    def build(self) -> Stride:
        return Stride(self)


class Stride:
    """See the module text."""

    def __init__(self, settings: StrideSettings) -> None:
        self.settings = settings
        self.tally = Tally()
        self.stop = StopRule(settings.stop, self.tally)
        self.buffer = PrefixBuffer(settings.restart, self.tally) if settings.restart else None
        self._whole = (0, 0)
        """Number and turns in all of rollouts that were not stopped early: what a full one takes."""

    async def collect(self, tasks: Sequence[Task], rollouts: Rollouts, teachers: Teachers) -> list[Group]:
        """Play each task from its prefix until the teacher gives up; then move the prefix."""
        began = time.perf_counter()
        size = self.settings.group
        played = await asyncio.gather(
            *(self._play(task, index, rollouts, teachers) for task in tasks for index in range(size))
        )
        seconds = time.perf_counter() - began
        await score_missing(played, teachers, self.tally)
        await self.stop.learn(played, teachers)
        groups = [Group(task, played[n * size : (n + 1) * size]) for n, task in enumerate(tasks)]
        for group in groups if self.buffer is not None else ():
            assert self.buffer is not None
            self.buffer.update(group.task, group.episodes)
        self._measure(played, rollouts, seconds)
        return groups

    async def _play(self, task: Task, index: int, rollouts: Rollouts, teachers: Teachers) -> Episode:
        """One rollout from the task's prefix; from its beginning if the prefix cannot be reproduced."""
        play = partial(
            rollouts.play,
            task,
            index,
            after_turn=self.stop.watch(rollouts, teachers),
            within_turn=self.stop.watch_within(rollouts, teachers),
        )
        start = self.buffer.start(task) if self.buffer is not None else None
        if start is not None:
            assert self.buffer is not None
            episode = await play(start=start)
            if not start_failed(episode):
                return episode
            self.tally.add(f"restore_failed/{episode.stop}")
            self.buffer.drop(task)
            return await play(name="fresh")
        return await play()

    async def credit(self, groups: Sequence[Group], scorer: Scorer, teachers: Teachers) -> list[Row]:
        """One row for each new turn, the one that crossed the threshold included."""
        return distillation_rows(
            groups,
            self.tally,
            coef=self.settings.coef,
            limits=self.stop.token_limits,
            limit_reason="out_of_support",
        )

    def _measure(self, played: Sequence[Episode], rollouts: Rollouts, seconds: float) -> None:
        """Where the window lies, and what stopping and reusing saved (turns of a whole rollout as the yardstick)."""
        whole = [e for e in played if e.stop is not None and e.stop.has_outcome]
        self._whole = (self._whole[0] + len(whole), self._whole[1] + sum(len(e.turns) for e in whole))
        usual = self._whole[1] / self._whole[0] if self._whole[0] else rollouts.max_turns
        new = [turn for episode in played for turn in episode.new_turns]
        saved = 0.0
        several = len({episode.task.domain for episode in played}) > 1
        for episode in played:
            stopped = episode.stop == StopReason.OUT_OF_SUPPORT
            if several:
                self.tally.mean(f"stopped/{episode.task.domain or 'default'}", float(stopped))
            reused = len(episode.turns) - len(episode.new_turns)
            self.tally.mean("stopped", float(stopped))
            self.tally.mean("restarted", float(reused > 0))
            self.tally.mean("window/reused", reused)
            self.tally.mean("window/end", len(episode.turns))
            saved += reused + (max(0.0, usual - len(episode.turns)) if stopped else 0.0)
        self.tally.add("saved/turns", saved)
        if new:
            self.tally.add("saved/tokens", saved * float(np.mean([len(turn.response_ids) for turn in new])))
            self.tally.add("seconds_saved", saved * seconds / len(new))
        self.tally.add("prefixes", len(self.buffer) if self.buffer is not None else 0)

    def state_dict(self) -> dict[str, Any]:
        """Calibration, prefixes, and the length of whole rollouts."""
        return {
            "stop": self.stop.state_dict(),
            "buffer": self.buffer.state_dict() if self.buffer is not None else {},
            "whole": list(self._whole),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of ``state_dict``."""
        self.stop.load_state_dict(state["stop"])
        if self.buffer is not None:
            self.buffer.load_state_dict(state["buffer"])
        self._whole = (int(state["whole"][0]), int(state["whole"][1]))
