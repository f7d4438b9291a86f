"""Teachers that are chat models: what they are asked, and how their replies are read."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Literal, Self

from pydantic import NonNegativeInt

from turnpoint.prompts.analysis import recovery_messages, report_messages
from turnpoint.prompts.report import Candidate, Report, parse_recovery, parse_report
from turnpoint.prompts.resolve import resolve_action, same_action
from turnpoint.records import Episode, Message
from turnpoint.teachers.counters import TeacherCounters
from turnpoint.teachers.protocol import Situation, TeacherError, TeacherFailure
from turnpoint.teachers.registry import TeacherSettings


class ChatTeacherSettings(TeacherSettings):
    """What a chat model sees when it is asked."""

    see: Literal["full", "trajectory"] = "full"
    """``full``: the whole episode is in view; ``trajectory``: each gold action is asked for again with only the
    turns before it in view, a turn is kept only if that answer differs from what was done, and lessons, which
    are written in hindsight, are dropped."""
    window: NonNegativeInt = 5
    """Turns before the current one that a recovery question shows."""


class ChatTeacher:
    """Asks for reports and recovery actions; subclasses say how a model is called."""

    def __init__(self, settings: ChatTeacherSettings, instructions: str) -> None:
        """``instructions``: the environment's rules (``EnvSuite.instructions``)."""
        self.chat_settings = settings
        self.instructions = instructions
        self.counters = TeacherCounters()
        self.number = 0
        """Which of several answers to the same question this one gives; see ``draw``."""

    def draw(self, number: int) -> Self:
        """The same teacher, its counters included, with the ``number``-th answer to every question."""
        other = copy(self)
        other.number = number
        return other

    async def complete(self, messages: Sequence[Message]) -> str:
        """One model call. Raises ``TeacherError`` through ``self.counters.fail``."""
        raise NotImplementedError(f"{type(self).__name__} must define complete()")

    async def analyse(self, episode: Episode, max_pivots: int) -> Report | None:
        """One call per episode, and with ``see: trajectory`` one more for every turn named.

        Raises ``TeacherError``; an answer without anything usable is ``unparsable``.
        """
        self.counters.reports += 1
        if not episode.turns:
            return None
        reply = await self.complete(report_messages(episode, max_pivots, instructions=self.instructions))
        report = parse_report(reply, len(episode.turns), max_pivots)
        if report is None:
            raise self.counters.fail(
                TeacherFailure.UNPARSABLE,
                f"the report on episode {episode.id} has no JSON object and no action",
            )
        return report if self.chat_settings.see == "full" else await self._without_hindsight(episode, report)

    async def _without_hindsight(self, episode: Episode, report: Report) -> Report:
        asked = await asyncio.gather(*(self._reconsider(episode, named.turn) for named in report.candidates))
        candidates = [candidate for candidate in asked if candidate is not None]
        return replace(report, lesson=None, turn_lessons={}, candidates=candidates)

    async def _reconsider(self, episode: Episode, turn: int) -> Candidate | None:
        """The action named without later turns in view; None if it is the one taken, or if the call failed."""
        past = episode.turns[turn]
        situation = Situation(episode.task, episode.turns[:turn], past.observation, turn=turn)
        try:
            action = await self._ask(situation, window=turn)
        except TeacherError:
            return None  # counted where it was raised; the other turns of the report stay
        if action is None:
            return None
        admissible = past.observation.admissible
        meant = action if admissible is None else resolve_action(action, admissible).action
        taken = meant is not None and same_action(meant, past.executed, admissible)
        return None if taken else Candidate(turn, action)

    async def recover(self, situation: Situation) -> str | None:
        """One call with the last turns and the exact situation. Raises ``TeacherError``."""
        self.counters.recoveries += 1
        action = await self._ask(situation, window=self.chat_settings.window)
        if action is None:
            raise self.counters.fail(
                TeacherFailure.UNPARSABLE, f"the recovery reply for task {situation.task.id} names no action"
            )
        return action

    async def _ask(self, situation: Situation, window: int) -> str | None:
        messages = recovery_messages(
            situation.task,
            situation.turns,
            situation.observation,
            instructions=self.instructions,
            window=window,
        )
        return parse_recovery(await self.complete(messages))

    def metrics(self) -> dict[str, float]:
        """Totals since the teacher was built."""
        return self.counters.as_metrics()
