"""What an evaluation reports about a set of episodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from turnpoint.pivots.oracle import first_oracle_pivot, wasted_turns
from turnpoint.pivots.statistics import Interval, bootstrap_interval
from turnpoint.records import Episode, RecordError


@dataclass(frozen=True, slots=True)
class EpisodeSummary:
    """Rates over the episodes of an evaluation; intervals resample tasks."""

    success: Interval
    """Share of solved tasks among episodes that have an outcome."""
    by_type: dict[str, Interval]
    turns: Interval
    invalid_rate: float
    """Share of turns without a parsable action."""
    ineffective_rate: float
    """Share of turns whose action the environment did not accept."""
    repeated_rate: float
    """Share of turns that repeat an action already taken in the same environment state."""
    stops: dict[str, int]
    """Episodes by stop reason, those without an outcome included."""
    score: Interval | None = None
    """Mean ``Episode.score``; None where the environment gives none."""
    pivot_rate: Interval | None = None
    """Share of episodes with an oracle pivot; None without oracle distances."""
    recovered: Interval | None = None
    """Success among the episodes that have an oracle pivot; None if there are none."""
    wasted_turns: Interval | None = None
    """Turns after the first oracle pivot in failed episodes; None if there are none."""
    extra: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        optional = {
            "score": self.score,
            "pivot_rate": self.pivot_rate,
            "recovered": self.recovered,
            "wasted_turns": self.wasted_turns,
        }
        return {
            "success": self.success.as_dict(),
            "by_type": {name: interval.as_dict() for name, interval in self.by_type.items()},
            "turns": self.turns.as_dict(),
            "invalid_rate": self.invalid_rate,
            "ineffective_rate": self.ineffective_rate,
            "repeated_rate": self.repeated_rate,
            "stops": self.stops,
            **{name: value.as_dict() for name, value in optional.items() if value is not None},
            **self.extra,
        }


def summarise(episodes: Sequence[Episode]) -> EpisodeSummary:
    """Summary of played episodes. Raises ``RecordError`` if none of them has an outcome."""
    stops = Counter(str(episode.stop) for episode in episodes)
    ended = [episode for episode in episodes if episode.stop is not None and episode.stop.has_outcome]
    if not ended:
        raise RecordError(f"no episode has an outcome; stop reasons: {dict(stops)}")
    turns = [turn for episode in ended for turn in episode.turns]
    types = sorted({episode.task.type for episode in ended})
    scored = [(episode, score) for episode in ended if (score := episode.score) is not None]
    measured = [episode for episode in ended if episode.distances_known]
    pivotal = [episode for episode in measured if first_oracle_pivot(episode) is not None]
    failed = [episode for episode in pivotal if not episode.success]
    return EpisodeSummary(
        success=_rate(ended, [float(bool(e.success)) for e in ended]),
        by_type={
            name: _rate(part, [float(bool(e.success)) for e in part])
            for name in types
            if (part := [e for e in ended if e.task.type == name])
        },
        turns=_rate(ended, [float(len(e.turns)) for e in ended]),
        invalid_rate=_share([not turn.valid for turn in turns]),
        ineffective_rate=_share([not turn.effective for turn in turns]),
        repeated_rate=_share([flag for episode in ended for flag in _repeats(episode)]),
        stops=dict(sorted(stops.items())),
        score=_rate([e for e, _ in scored], [score for _, score in scored]) if scored else None,
        pivot_rate=_rate(measured, [float(first_oracle_pivot(e) is not None) for e in measured])
        if measured
        else None,
        recovered=_rate(pivotal, [float(bool(e.success)) for e in pivotal]) if pivotal else None,
        wasted_turns=_rate(failed, [float(wasted_turns(e) or 0) for e in failed]) if failed else None,
    )


def _rate(episodes: Sequence[Episode], values: Sequence[float]) -> Interval:
    return bootstrap_interval(values, units=[episode.task.id for episode in episodes])


def _share(flags: Sequence[bool]) -> float:
    return sum(flags) / len(flags) if flags else 0.0


def _repeats(episode: Episode) -> list[bool]:
    seen: set[tuple[Hashable, str]] = set()
    flags = []
    for turn in episode.turns:
        key = (turn.observation.state_key or turn.observation.text, turn.executed)
        flags.append(key in seen)
        seen.add(key)
    return flags
