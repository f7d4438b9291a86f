"""Recovery evaluation (PivotOPD Figure 5): can the policy still solve the task after a recorded mistake?

Every mistake is the first oracle pivot of a failed episode. The prefix with the mistake is restored in a fresh
environment and verified; the policy goes on alone for the rest of the turn budget.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from turnpoint.pivots.oracle import distances, first_oracle_pivot
from turnpoint.pivots.statistics import Interval, bootstrap_interval
from turnpoint.records import Episode, EpisodeKind
from turnpoint.rollouts import Rollouts, Start


@dataclass(frozen=True, slots=True)
class Mistake:
    """A recorded wrong turn, and the episode it spoilt."""

    episode: Episode
    turn: int
    remaining: int | None
    """Oracle distance right after the mistake; None if it cannot be undone."""


@dataclass(slots=True)
class RecoveryReport:
    """What replays from mistakes came to."""

    rate: Interval
    """Share of replays that solve the task: mean per mistake, then over mistakes."""
    within: list[float]
    """Entry n: share recovered in at most n turns after the mistake."""
    turns: Interval | None
    """Turns of the recovered continuations; None if nothing was recovered."""
    optimal: float | None
    """Mean oracle distance after the mistakes, over the same continuations."""
    per_mistake: dict[str, float] = field(default_factory=dict)
    """Share of replays recovered, by episode and turn of the mistake."""
    excluded: dict[str, int] = field(default_factory=dict)
    """Replays without an outcome, by stop reason."""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "rate": self.rate.as_dict(),
            "within": self.within,
            "turns": self.turns.as_dict() if self.turns else None,
            "optimal": self.optimal,
            "mistakes": len(self.per_mistake),
            "per_mistake": self.per_mistake,
            "excluded": self.excluded,
        }


def first_mistakes(episodes: Iterable[Episode], *, undoable_only: bool = False) -> list[Mistake]:
    """The first oracle pivot of every failed episode that has one and goes on after it."""
    found = []
    for episode in episodes:
        if episode.success or episode.stop is None or not episode.stop.has_outcome:
            continue
        turn = first_oracle_pivot(episode)
        if turn is None or turn + 1 >= len(episode.turns):
            continue
        remaining = distances(episode)[turn + 1]
        if remaining is not None or not undoable_only:
            found.append(Mistake(episode, turn, remaining))
    return found


async def replay_mistakes(
    rollouts: Rollouts, mistakes: Sequence[Mistake], replays: int
) -> list[list[Episode]]:
    """``replays`` continuations of every mistake, all at once."""
    played = await asyncio.gather(
        *(
            rollouts.play(
                mistake.episode.task,
                replay,
                start=Start(mistake.episode, mistake.turn + 1),
                kind=EpisodeKind.REPLAY,
                name=f"after-{mistake.turn}-of-{mistake.episode.id}",
            )
            for mistake in mistakes
            for replay in range(replays)
        )
    )
    return [list(played[i * replays : (i + 1) * replays]) for i in range(len(mistakes))]


def recovery_report(mistakes: Sequence[Mistake], replays: Sequence[Sequence[Episode]]) -> RecoveryReport:
    """Rates and efficiency. Raises ``ValueError`` if no replay has an outcome."""
    excluded: dict[str, int] = {}
    names, flags, lengths, optimal = [], [], [], []
    for mistake, episodes in zip(mistakes, replays, strict=True):
        outcomes = []
        for episode in episodes:
            if episode.stop is None or not episode.stop.has_outcome:
                excluded[str(episode.stop)] = excluded.get(str(episode.stop), 0) + 1
                continue
            outcomes.append(float(bool(episode.success)))
            if episode.success:
                lengths.append(float(len(episode.new_turns)))
                optimal.append(mistake.remaining)
        if outcomes:
            names.append(f"{mistake.episode.id}#{mistake.turn}")
            flags.append(float(np.mean(outcomes)))
    if not flags:
        raise ValueError(f"no replay has an outcome; stop reasons: {excluded}")
    total = sum(sum(1 for e in row if e.stop is not None and e.stop.has_outcome) for row in replays)
    longest = int(max(lengths, default=0))
    known = [float(value) for value in optimal if value is not None]
    return RecoveryReport(
        rate=bootstrap_interval(flags),
        within=[sum(length <= n for length in lengths) / total for n in range(longest + 1)],
        turns=bootstrap_interval(lengths) if lengths else None,
        optimal=float(np.mean(known)) if known else None,
        per_mistake=dict(zip(names, flags, strict=True)),
        excluded=excluded,
    )


def paired(base: RecoveryReport, other: RecoveryReport) -> dict[str, int]:
    """Mistakes on which ``other`` recovers more often, less often, or equally often than ``base``."""
    common = base.per_mistake.keys() & other.per_mistake.keys()
    gains = [other.per_mistake[name] - base.per_mistake[name] for name in common]
    return {
        "improved": sum(gain > 0 for gain in gains),
        "worse": sum(gain < 0 for gain in gains),
        "same": sum(gain == 0 for gain in gains),
    }
