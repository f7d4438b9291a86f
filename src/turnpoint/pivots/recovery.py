"""Recovery evaluation (PivotOPD Figure 5): can the policy still solve the task after a recorded mistake?

Every mistake is the first oracle pivot of a failed episode. The prefix with the mistake is restored in a fresh
environment and verified; the policy goes on alone for the rest of the turn budget.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from turnpoint.pivots.counted import why_not_counted
from turnpoint.pivots.oracle import distances, first_oracle_pivot
from turnpoint.pivots.statistics import Interval, bootstrap_interval
from turnpoint.records import Episode, EpisodeKind, RecordError
from turnpoint.rollouts import Rollouts, Start


@dataclass(frozen=True, slots=True)
class Mistake:
    """A recorded wrong turn, and the episode it spoilt."""

    episode: Episode
    turn: int
    remaining: int | None
    """Oracle distance right after the mistake; None if it cannot be undone."""
    number: int = 1
    """Which of several episodes of one id with this turn: evaluations of several steps give the same ids."""

    @property
    def label(self) -> str:
        """The episode's id, and the number where it is not alone."""
        return self.episode.id if self.number == 1 else f"{self.episode.id}~{self.number}"

    @property
    def name(self) -> str:
        """What tells the mistake from all others of the same files."""
        return f"{self.label}#{self.turn}"


@dataclass(slots=True)
class RecoveryReport:
    """What replays from mistakes came to."""

    rate: Interval
    """Share of replays that solve the task: mean per mistake, then over mistakes."""
    within: list[float]
    """Entry n: share recovered in at most n turns after the mistake; mean per mistake, then over mistakes."""
    turns: Interval | None
    """Turns of the recovered continuations, the interval resampling mistakes; None if nothing was recovered."""
    optimal: float | None
    """Mean oracle distance after the mistakes, over the same continuations."""
    efficiency: Interval | None = None
    """Turns that were needed over turns that were taken by recovered continuations: 1 = as short as possible."""
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
            "efficiency": self.efficiency.as_dict() if self.efficiency else None,
            "mistakes": len(self.per_mistake),
            "per_mistake": self.per_mistake,
            "excluded": self.excluded,
        }


def first_mistakes(
    episodes: Iterable[Episode], *, undoable_only: bool = False, left_out: Counter[str] | None = None
) -> list[Mistake]:
    """The first oracle pivot of every failed episode that has one and goes on after it.

    ``left_out`` counts the other episodes by reason, those that were solved included. Raises ``RecordError`` for an
    episode without distances.
    """
    left_out = Counter() if left_out is None else left_out
    found: list[Mistake] = []
    seen: Counter[tuple[str, int]] = Counter()
    for episode in episodes:
        reason = why_not_counted(episode)
        turn = None if reason or episode.success else first_oracle_pivot(episode)
        if reason is not None:
            left_out[reason] += 1
        elif episode.success:
            left_out["solved"] += 1
        elif turn is None:
            left_out["failed without an oracle pivot"] += 1
        elif turn + 1 >= len(episode.turns):
            left_out["oracle pivot on the last turn"] += 1
        elif (remaining := distances(episode)[turn + 1]) is None and undoable_only:
            left_out["cannot be undone"] += 1
        else:
            seen[episode.id, turn] += 1
            found.append(Mistake(episode, turn, remaining, seen[episode.id, turn]))
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
                name=f"after-{mistake.turn}-of-{mistake.label}",
            )
            for mistake in mistakes
            for replay in range(replays)
        )
    )
    return [list(played[i * replays : (i + 1) * replays]) for i in range(len(mistakes))]


def recovery_report(mistakes: Sequence[Mistake], replays: Sequence[Sequence[Episode]]) -> RecoveryReport:
    """Rates and efficiency. Raises ``RecordError`` if no replay has an outcome."""
    excluded: dict[str, int] = {}
    recovered: dict[str, list[int | None]] = {}
    optimal: list[int] = []
    shorter: list[tuple[str, float]] = []
    for mistake, episodes in zip(mistakes, replays, strict=True):
        name = mistake.name
        for episode in episodes:
            if episode.stop is None or not episode.stop.has_outcome:
                excluded[str(episode.stop)] = excluded.get(str(episode.stop), 0) + 1
                continue
            recovered.setdefault(name, []).append(len(episode.new_turns) if episode.success else None)
            if episode.success and mistake.remaining is not None:
                optimal.append(mistake.remaining)
                shorter.append((name, mistake.remaining / max(1, len(episode.new_turns))))
    if not recovered:
        raise RecordError(
            f"no replay has an outcome, so there is no recovery rate; stop reasons: {excluded}; allow more time "
            "(rollout.episode_seconds, rollout.env_seconds), or replay mistakes of the run's own environment"
        )
    lengths = [(name, turns) for name, found in recovered.items() for turns in found if turns is not None]
    longest = max((turns for _, turns in lengths), default=0)
    shares = {name: _share_within(found, longest) for name, found in recovered.items()}
    return RecoveryReport(
        rate=bootstrap_interval(list(shares.values())),
        within=[
            float(np.mean([_share_within(found, most) for found in recovered.values()]))
            for most in range(longest + 1)
        ],
        turns=bootstrap_interval([float(turns) for _, turns in lengths], units=[name for name, _ in lengths])
        if lengths
        else None,
        optimal=float(np.mean(optimal)) if optimal else None,
        efficiency=bootstrap_interval([v for _, v in shorter], units=[name for name, _ in shorter])
        if shorter
        else None,
        per_mistake=shares,
        excluded=excluded,
    )


def _share_within(found: Sequence[int | None], most: int) -> float:
    """Share of a mistake's replays that recovered in at most ``most`` turns; None = it did not recover."""
    return sum(turns is not None and turns <= most for turns in found) / len(found)


def paired(base: RecoveryReport, other: RecoveryReport) -> dict[str, int]:
    """Mistakes on which ``other`` recovers more often, less often, or equally often than ``base``."""
    return paired_shares(base.per_mistake, other.per_mistake)


def paired_shares(base: Mapping[str, float], other: Mapping[str, float]) -> dict[str, int]:
    """``paired`` from the shares recovered, by mistake; ``unpaired`` counts mistakes that only one of them has."""
    common = base.keys() & other.keys()
    gains = [other[name] - base[name] for name in common]
    return {
        "improved": sum(gain > 0 for gain in gains),
        "worse": sum(gain < 0 for gain in gains),
        "same": sum(gain == 0 for gain in gains),
        "unpaired": len(base.keys() ^ other.keys()),
    }
