"""Self-consistency of a naming teacher: several answers to each question, one vote. Goes beyond the papers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pydantic import Field

from turnpoint.config import ConfigError, Settings
from turnpoint.credit import agreement
from turnpoint.methods.situations import resolve
from turnpoint.methods.tally import Tally
from turnpoint.prompts import Candidate, Report
from turnpoint.records import Episode, Observation
from turnpoint.rollouts import Rollouts
from turnpoint.teachers.protocol import NamingTeacher, Resamples, Situation, TeacherError


class ConsistencySettings(Settings):
    """Ask the teacher several times; turns count by the share of answers that agree on them."""

    samples: int = Field(default=5, ge=2)
    """n: answers to every question."""
    min_agreement: float = Field(default=0.4, gt=0.0, le=1.0)
    """Turns (and recovery turns) with a smaller share of the n answers for one action are dropped."""
    recovery: bool = True
    """Whether recovery actions are asked for n times as well."""

    def check(self, teacher: NamingTeacher | None) -> None:
        """Raise ``ConfigError`` if every answer would be the same."""
        if teacher is not None and isinstance(teacher, Resamples) and not teacher.varies:
            raise ConfigError(
                f"method.consistency asks the teacher {self.samples} times, but this one always answers the same; set "
                "teacher.temperature above 0 (http), or teacher.error (an oracle that errs, for studies), or "
                "method.consistency to null"
            )


class Poll:
    """The answers of one teacher, put to the vote. Whoever fails to answer agrees with nobody."""

    def __init__(
        self, settings: ConsistencySettings, teacher: NamingTeacher, rollouts: Rollouts, tally: Tally
    ) -> None:
        self.settings = settings
        self.rollouts = rollouts
        self.tally = tally
        self.teachers = [
            teacher.draw(number) if number and isinstance(teacher, Resamples) else teacher
            for number in range(settings.samples)
        ]

    async def report(self, episode: Episode, limit: int) -> tuple[Report | None, dict[int, float]]:
        """The report by vote with the agreement on each of its turns; None if no answer is a report.

        At most ``limit`` turns, by falling agreement, those below ``min_agreement`` dropped and counted. Lesson and
        summary are those of the answer that is closest to the vote.
        """
        reports = await asyncio.gather(*(self._analyse(t, episode, limit) for t in self.teachers))
        answers = [_named(report, episode) for report in reports]
        votes = agreement([[(turn, meaning) for turn, meaning, _ in answer] for answer in answers])
        for _, share in votes.values():
            self.tally.mean("agreement", share)
        agreed = {turn: vote for turn, vote in votes.items() if vote[1] >= self.settings.min_agreement}
        self.tally.add("pivots_skipped/low_agreement", len(votes) - len(agreed))
        closest = max(
            (number for number, report in enumerate(reports) if report is not None),
            key=lambda number: sum(
                agreed[t][1] for t, m, _ in answers[number] if t in agreed and agreed[t][0] == m
            ),
            default=None,
        )
        if closest is None:
            return None, {}
        best = reports[closest]
        assert best is not None
        words = {(turn, meaning): text for a in reversed(answers) for turn, meaning, text in a}
        chosen = list(agreed.items())[:limit]
        notes = {turn: lesson for r in reversed(reports) if r for turn, lesson in r.turn_lessons.items()}
        report = Report(
            summary=best.summary,
            lesson=best.lesson,
            turn_lessons=notes | best.turn_lessons,
            candidates=[Candidate(turn, words[turn, meaning]) for turn, (meaning, _) in chosen],
        )
        return report, {turn: share for turn, (_, share) in chosen}

    async def action(self, where: Situation) -> tuple[str | None, float]:
        """The action most answers mean (an admissible one where they are listed) with their share; None if none does.

        Actions that mean nothing there are no vote.
        """
        answers = await asyncio.gather(*(self._recover(t, where) for t in self.teachers))
        meant = [resolve(answer, where.observation) for answer in answers]
        votes = agreement([[] if action is None else [(0, action)] for action in meant])
        action, share = votes.get(0, (None, 0.0))
        if action is not None:
            self.tally.mean("recovery_consistency", share)
        return action, share

    async def _analyse(self, teacher: NamingTeacher, episode: Episode, limit: int) -> Report | None:
        try:
            with self.rollouts.sampler.waiting(teacher.remote):
                return await teacher.analyse(episode, limit)
        except TeacherError as error:
            self.tally.add(f"teacher_failures/{error.reason}")
            return None

    async def _recover(self, teacher: NamingTeacher, where: Situation) -> str | None:
        try:
            with self.rollouts.sampler.waiting(teacher.remote):
                return await teacher.recover(where)
        except TeacherError as error:
            self.tally.add(f"teacher_failures/{error.reason}")
            return None


def _named(report: Report | None, episode: Episode) -> Sequence[tuple[int, str, str]]:
    """(turn, what the action means there, the action as written) of every candidate."""
    return [
        (c.turn, _meaning(c.action, episode.turns[c.turn].observation), c.action)
        for c in (report.candidates if report is not None else ())
    ]


def _meaning(action: str, observation: Observation) -> str:
    """The action resolved; one that means nothing there stands for itself, apart from case and spaces."""
    resolved = resolve(action, observation)
    return f"unresolved: {' '.join(action.lower().split())}" if resolved is None else resolved
