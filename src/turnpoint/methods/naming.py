"""The naming teacher's report on an episode: asked for once, counted, kept in the episode's record."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from turnpoint.methods.situations import resolve
from turnpoint.methods.tally import Tally
from turnpoint.prompts import Report, same_action
from turnpoint.records import Episode, Group, Pivot, Turn
from turnpoint.rollouts import Rollouts
from turnpoint.teachers.protocol import NamingTeacher, TeacherError


async def name_pivots(
    groups: Sequence[Group], teacher: NamingTeacher, limit: int, tally: Tally, rollouts: Rollouts
) -> None:
    """Put the naming teacher's report on every episode into its record; one call per episode, all at once."""
    episodes = [episode for group in groups for episode in group.episodes if episode.turns]
    reports = await asyncio.gather(*(ask_report(e, teacher, limit, tally, rollouts) for e in episodes))
    for episode, report in zip(episodes, reports, strict=True):
        for candidate in report.candidates if report is not None else ():
            note = report.turn_lessons.get(candidate.turn, "") if report is not None else ""
            keep_pivot(episode, Pivot(candidate.turn, "teacher", candidate.action, note=note), tally)


async def ask_report(
    episode: Episode, teacher: NamingTeacher, limit: int, tally: Tally, rollouts: Rollouts
) -> Report | None:
    """The teacher's report, its lesson and summary put on record; None if it has none to give.

    A teacher that fails costs its signal and is counted.
    """
    try:
        with rollouts.sampler.waiting(teacher.remote):
            report = await teacher.analyse(episode, limit)
    except TeacherError as error:
        tally.add(f"teacher_failures/{error.reason}")
        return None
    note_report(episode, report, tally)
    return report


def note_report(episode: Episode, report: Report | None, tally: Tally) -> None:
    """Count a report, and put its lesson and summary on record."""
    tally.add("reports" if report else "reports_empty")
    if report is not None:
        episode.lesson, episode.summary = report.lesson or None, report.summary


def keep_pivot(episode: Episode, pivot: Pivot, tally: Tally) -> None:
    """Put ``pivot`` on record, and its ``resolved`` if the gold action exists there and is not the one taken."""
    episode.pivots.append(pivot)
    tally.add("pivots_named")
    turn = episode.turns[pivot.turn]
    resolved = resolve(pivot.gold_action, turn.observation)
    if resolved is None:
        tally.add("pivots_skipped/unresolved")
    elif turn.valid and _did(resolved, turn):
        tally.add("pivots_skipped/same_action")
    else:
        pivot.resolved = resolved
        tally.add("pivots_used")


def drop_pivot(pivot: Pivot, reason: str, tally: Tally) -> None:
    """A pivot on record is not to be used after all."""
    pivot.resolved, pivot.note = None, f"not used: {reason.replace('_', ' ')}"
    tally.add("pivots_used", -1)
    tally.add(f"pivots_skipped/{reason}")


def _did(action: str, turn: Turn) -> bool:
    shown = turn.observation
    return action == resolve(turn.executed, shown) or same_action(action, turn.executed, shown.admissible)
