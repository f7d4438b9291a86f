"""Counterfactual replays (PivotOPD Figure 1b): which intervention would have saved a failed episode?

Every failure with an oracle pivot p is replayed under several conditions, several times each; apart from the turns that
the oracle takes, the policy plays alone for the rest of the turn budget.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from turnpoint.envs import Knowledge
from turnpoint.pivots.intervene import OracleTurn, adopt, prepare, require_oracle
from turnpoint.pivots.recovery import Mistake
from turnpoint.pivots.statistics import Interval, bootstrap_interval
from turnpoint.records import Episode, EpisodeKind, RecordError
from turnpoint.rollouts import Rollouts, Start

DRAWS = 4000
"""Bootstrap draws over episodes, as in the paper."""


@dataclass(frozen=True, slots=True)
class Condition:
    """Where play is taken up again, and for how many turns the oracle plays."""

    name: str
    title: str
    oracle_turns: int = 0
    where: str = "after"
    """``after``: the mistake stays; ``at``: before the mistake; ``later``: before a random turn after it."""

    def turn(self, mistake: Mistake, rollouts: Rollouts) -> int:
        """The state to go on from."""
        if self.where == "at":
            return mistake.turn
        if self.where == "after":
            return mistake.turn + 1
        rng = rollouts.streams.rng("counterfactual", mistake.label, mistake.turn)
        return int(rng.integers(mistake.turn + 1, len(mistake.episode.turns)))


def conditions(after: Sequence[int] = (2, 3)) -> list[Condition]:
    """The paper's conditions; ``after``: for how many turns the oracle helps after the mistake."""
    return [
        Condition("none", "no intervention"),
        Condition("resample", "resample at the pivot", where="at"),
        Condition("oracle_later", "oracle at a random later turn", 1, "later"),
        Condition("oracle_at_pivot", "oracle at the pivot", 1, "at"),
        *(
            Condition(
                f"oracle_after_{k}",
                f"oracle on the {k} turns after it" if k != 1 else "oracle on the turn after it",
                k,
            )
            for k in dict.fromkeys(after)
        ),
    ]


@dataclass(slots=True)
class ConditionResult:
    """Success of the replays under one condition."""

    condition: Condition
    success: Interval | None
    """Mean per failure, then over failures; None if no replay has an outcome."""
    gain: Interval | None
    """Paired difference from no intervention, over failures that have both."""
    failures: int
    excluded: dict[str, int] = field(default_factory=dict)
    """Replays without an outcome, by stop reason."""


@dataclass(slots=True)
class CounterfactualReport:
    """All conditions over the same failures."""

    results: list[ConditionResult]
    failures: int
    replays: int

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "failures": self.failures,
            "replays": self.replays,
            "conditions": {
                r.condition.name: {
                    "title": r.condition.title,
                    "success": r.success.as_dict() if r.success else None,
                    "gain": r.gain.as_dict() if r.gain else None,
                    "failures": r.failures,
                    "excluded": r.excluded,
                }
                for r in self.results
            },
        }


Played = dict[str, list[list[Episode]]]
"""Episodes by condition, failure and replay."""


async def play_conditions(
    rollouts: Rollouts,
    mistakes: Sequence[Mistake],
    chosen: Sequence[Condition],
    replays: int,
    *,
    knowledge: Knowledge = "full",
) -> Played:
    """All replays of all conditions, batched together; each state is brought back once and forked from there."""
    if any(condition.oracle_turns for condition in chosen):
        require_oracle(rollouts)
    jobs = [(condition, mistake) for condition in chosen for mistake in mistakes]
    played = await asyncio.gather(*(_replays(rollouts, c, m, replays, knowledge) for c, m in jobs))
    size = len(mistakes)
    return {c.name: list(played[i * size : (i + 1) * size]) for i, c in enumerate(chosen)}


async def _replays(
    rollouts: Rollouts, condition: Condition, mistake: Mistake, replays: int, knowledge: Knowledge
) -> list[Episode]:
    turn, name = condition.turn(mistake, rollouts), f"{condition.name}-of-{mistake.label}"
    taken = [OracleTurn(knowledge)] * condition.oracle_turns
    prepared = await prepare(rollouts, mistake.episode, turn, taken, name=name)
    if (
        prepared.stop is not None
    ):  # solved by the oracle, or it could not be brought back: the same for every replay
        return [prepared] * replays
    start = Start(prepared, len(prepared.turns))
    episodes = await asyncio.gather(
        *(
            rollouts.play(mistake.episode.task, n, start=start, kind=EpisodeKind.REPLAY, name=name)
            for n in range(replays)
        )
    )
    return [adopt(episode, prepared) for episode in episodes]


def counterfactual_report(
    mistakes: Sequence[Mistake], chosen: Sequence[Condition], played: Played
) -> CounterfactualReport:
    """Success by condition. Raises ``RecordError`` if no replay at all has an outcome."""
    rates = {c.name: [_rate(episodes) for episodes in played[c.name]] for c in chosen}
    if not any(rate is not None for found in rates.values() for rate in found):
        stops = Counter(str(e.stop) for found in played.values() for es in found for e in es)
        raise RecordError(f"no replay has an outcome; stop reasons: {dict(stops)}")
    base = rates.get("none", [None] * len(mistakes))
    results = []
    for condition in chosen:
        found = rates[condition.name]
        known = [rate for rate in found if rate is not None]
        pairs = [(a, b) for a, b in zip(found, base, strict=True) if a is not None and b is not None]
        excluded = Counter(
            str(e.stop)
            for episodes in played[condition.name]
            for e in episodes
            if e.stop is None or not e.stop.has_outcome
        )
        gains = [a - b for a, b in pairs] if condition.name != "none" else []
        results.append(
            ConditionResult(
                condition,
                bootstrap_interval(known, draws=DRAWS) if known else None,
                bootstrap_interval(gains, draws=DRAWS) if gains else None,
                len(known),
                dict(sorted(excluded.items())),
            )
        )
    replays = max((len(episodes) for found in played.values() for episodes in found), default=0)
    return CounterfactualReport(results, len(mistakes), replays)


def _rate(episodes: Sequence[Episode]) -> float | None:
    ended = [bool(e.success) for e in episodes if e.stop is not None and e.stop.has_outcome]
    return sum(ended) / len(ended) if ended else None
