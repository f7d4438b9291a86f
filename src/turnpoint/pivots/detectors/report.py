"""A naming teacher's report on the finished episode (PivotOPD's trigger)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Literal

from pydantic import PositiveInt

from turnpoint.pivots.detectors.protocol import (
    Base,
    Detection,
    DetectorFailure,
    DetectorSettings,
    Sample,
    Sources,
)
from turnpoint.prompts import resolve_action, same_action
from turnpoint.records import Episode, Turn
from turnpoint.teachers.protocol import NamingTeacher, Resamples, TeacherError, TeacherFailure

SOURCE = "teacher"
"""``Pivot.source`` of turns that a report named."""


class ReportDetectorSettings(DetectorSettings):
    """Turns named in the teacher's report; a turn counts only if its gold action differs from what was done."""

    kind: Literal["report"] = "report"
    samples: PositiveInt = 1
    """Reports asked for on each episode (the papers' protocol: 5)."""
    max_pivots: PositiveInt = 5
    """Most turns of a report (the papers' protocol: 5)."""

    def build(self, sources: Sources) -> ReportDetector:
        return ReportDetector(self, sources)


class ReportDetector(Base):
    """The score is the share of reports that name the turn or a neighbour.

    With ``samples`` 1 that share would say nothing, and the score is the rank: no probability then.
    """

    def __init__(self, settings: ReportDetectorSettings, sources: Sources) -> None:
        super().__init__(sources, "report", probability=settings.samples > 1)
        self.settings = settings

    def recorded(self, episode: Episode) -> list[Sample] | None:
        named = [pivot for pivot in episode.pivots if pivot.source == SOURCE]
        if not named and not (episode.lesson or episode.summary):
            return None
        pairs = [(pivot.turn, pivot.resolved or pivot.gold_action) for pivot in named]
        return self._scored([self._usable(episode, pairs)])

    async def detect(self, episode: Episode) -> list[Sample]:
        self.sources.need("naming", self.name)
        asked = await asyncio.gather(*(self._ask(teacher, episode) for teacher in self._teachers()))
        answers = [answer for answer in asked if not isinstance(answer, TeacherError)]
        if not answers:
            first = next(answer for answer in asked if isinstance(answer, TeacherError))
            raise DetectorFailure(f"teacher: {first.reason.value}", str(first))
        return self._scored(answers)

    def _teachers(self) -> list[NamingTeacher]:
        """One for each report: draws of the same teacher, so that no two answers are equal by construction."""
        teacher, samples = self.sources.naming, self.settings.samples
        assert teacher is not None
        if not isinstance(teacher, Resamples):
            return [teacher] * samples
        if not teacher.varies and samples > 1:
            self.counts["asked once, since the teacher always answers the same"] += samples - 1
            samples = 1
        return [teacher.draw(number) if number else teacher for number in range(samples)]

    async def _ask(
        self, teacher: NamingTeacher, episode: Episode
    ) -> list[tuple[int, str | None]] | TeacherError:
        """Usable (turn, gold) of one report. What cannot be parsed is a wrong answer, not a missing one."""
        try:
            report = await teacher.analyse(episode, self.settings.max_pivots)
        except TeacherError as error:
            self.counts[f"teacher: {error.reason.value}"] += 1
            return [] if error.reason == TeacherFailure.UNPARSABLE else error
        named = [] if report is None else [(c.turn, c.action) for c in report.candidates]
        return self._usable(episode, named)

    def _usable(
        self, episode: Episode, named: Sequence[tuple[int, str | None]]
    ) -> list[tuple[int, str | None]]:
        usable = []
        for turn, gold in named:
            if not 0 <= turn < len(episode.turns):
                self.counts["turn outside the episode"] += 1
            elif not differs(gold, episode.turns[turn]):
                self.counts["gold action is the one taken, or cannot be taken"] += 1
            else:
                usable.append((turn, gold))
        return usable

    def _scored(self, answers: Sequence[Sequence[tuple[int, str | None]]]) -> list[Sample]:
        if self.settings.samples == 1:
            (answer,) = answers
            most = max(self.settings.max_pivots, len(answer))
            return [[Detection(t, (most - rank) / most, gold) for rank, (t, gold) in enumerate(answer)]]

        def share(turn: int) -> float:
            return sum(any(abs(turn - t) <= 1 for t, _ in answer) for answer in answers) / len(answers)

        return [
            sorted((Detection(turn, share(turn), gold) for turn, gold in answer), key=lambda d: -d.score)
            for answer in answers
        ]


def differs(gold: str | None, turn: Turn) -> bool:
    """Whether a gold action can be taken in the turn's situation and is not what was done."""
    if not gold:
        return False
    admissible = turn.observation.admissible
    if admissible is None:
        return not same_action(gold, turn.executed)
    meant = resolve_action(gold, admissible).action
    return meant is not None and meant != resolve_action(turn.executed, admissible).action
