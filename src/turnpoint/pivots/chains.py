"""What several attempts at a task come to: PivoARL's Success@k, retry ratio and preference groups (2607.03702).

An *attempt list* holds the attempts at one task in order. It is either a chain (each attempt knows of the ones
before it, and the chain stops at the first success) or independent attempts of a one-attempt method. Both are
measured alike: attempts after the first success do not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from turnpoint.pivots.statistics import Interval, bootstrap_interval
from turnpoint.records import Episode

AttemptList = Sequence[Episode]
_EQUAL = 1e-9
"""Outcomes this close are the same outcome."""


@dataclass(frozen=True, slots=True)
class ChainSummary:
    """Measures of many attempt lists; intervals resample tasks."""

    success_at: dict[int, Interval]
    """Success within the first k attempts, by k; without a k at which no list has an outcome."""
    attempts: Interval
    """Attempts used."""
    interactions: Interval
    """Turns played for a task, over all its attempts; reused turns cost nothing."""
    retry_ratio: Interval | None
    """New turns of a retry over its turns in all, which a full retry would have played; None without retries."""
    preference_groups: dict[int, int] = field(default_factory=dict)
    """States reached with different outcomes, by turn."""
    compared_states: dict[int, int] = field(default_factory=dict)
    """States reached at least twice, by turn: of these the preference groups are a part."""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON; keys are strings, as JSON has no others."""
        return {
            "success_at": {str(k): interval.as_dict() for k, interval in self.success_at.items()},
            "attempts_used": self.attempts.as_dict(),
            "interactions": self.interactions.as_dict(),
            "retry_ratio": self.retry_ratio.as_dict() if self.retry_ratio is not None else None,
            "preference_groups": {
                "total": sum(self.preference_groups.values()),
                "by_turn": {str(turn): count for turn, count in self.preference_groups.items()},
                "compared_by_turn": {str(turn): count for turn, count in self.compared_states.items()},
            },
        }


def summarise_chains(chains: Sequence[AttemptList], attempts: int) -> ChainSummary:
    """Measures of ``chains`` with up to ``attempts`` attempts each. Raises ``ValueError`` if there are none."""
    if not chains or not all(chains):
        raise ValueError("a summary of chains needs at least one, each with an attempt")
    used = [until_success(chain) for chain in chains]
    rates = {k: success_at(chains, k) for k in range(1, attempts + 1)}
    retries = [episode for chain in used for episode in chain[1:] if episode.turns]
    episodes = [episode for chain in used for episode in chain]
    preferred, compared = preference_groups(episodes)
    return ChainSummary(
        success_at={k: rate for k, rate in rates.items() if rate is not None},
        attempts=_interval([chain[0] for chain in used], [len(chain) for chain in used]),
        interactions=_interval(
            [chain[0] for chain in used], [sum(len(e.new_turns) for e in chain) for chain in used]
        ),
        retry_ratio=_interval(retries, [len(e.new_turns) / len(e.turns) for e in retries])
        if retries
        else None,
        preference_groups=preferred,
        compared_states=compared,
    )


def until_success(chain: AttemptList) -> list[Episode]:
    """The attempts up to and including the first success."""
    first = next((n for n, episode in enumerate(chain) if episode.success), len(chain) - 1)
    return list(chain[: first + 1])


def success_at(chains: Sequence[AttemptList], k: int) -> Interval | None:
    """Share of tasks solved within the first ``k`` attempts, or None if that is known of no list.

    A list without a success among them counts as a failure only if each of them has an outcome: a time-out or
    a broken environment is no failure of the agent. Raises ``ValueError`` for k < 1.
    """
    if k < 1:
        raise ValueError(f"success at k = {k} attempts has no meaning; k is at least 1")
    known: list[Episode] = []
    values: list[float] = []
    for chain in chains:
        first = chain[:k]
        solved = any(episode.success for episode in first)
        if solved or all(episode.stop is not None and episode.stop.has_outcome for episode in first):
            known.append(chain[0])
            values.append(float(solved))
    return _interval(known, values) if known else None


def preference_groups(
    episodes: Sequence[Episode], *, outcome: Callable[[Episode], float] = lambda episode: episode.total_reward
) -> tuple[dict[int, int], dict[int, int]]:
    """States from which new turns of a task led to different outcomes, and all that were reached twice; by turn.

    A group is a state at the same turn of the same task; each episode counts once in it. Turns without a state
    key, reused turns and episodes without an outcome do not count.
    """
    counter = PreferenceCounter(outcome)
    for episode in episodes:
        counter.add(episode)
    return counter.counts()


class PreferenceCounter:
    """``preference_groups`` of a stream; keeps two numbers for each state."""

    def __init__(self, outcome: Callable[[Episode], float] = lambda episode: episode.total_reward) -> None:
        self._outcome = outcome
        self._states: dict[tuple[int, str, int, str], tuple[int, float, float]] = {}

    def add(self, episode: Episode) -> None:
        """Count an episode; those of different steps are never compared."""
        if episode.stop is None or not episode.stop.has_outcome:
            return
        value = self._outcome(episode)
        for turn in episode.new_turns:
            state = turn.observation.state_key
            if state is not None:
                key = (episode.step, episode.task.id, turn.index, state)
                n, low, high = self._states.get(key, (0, value, value))
                self._states[key] = (n + 1, min(low, value), max(high, value))

    def counts(self) -> tuple[dict[int, int], dict[int, int]]:
        """Preference groups, and states reached at least twice; by turn."""
        preferred: Counter[int] = Counter()
        compared: Counter[int] = Counter()
        for (_, _, index, _), (n, low, high) in self._states.items():
            if n > 1:
                compared[index] += 1
                preferred[index] += high - low > _EQUAL
        return dict(sorted((+preferred).items())), dict(sorted(compared.items()))


def _interval(episodes: Sequence[Episode], values: Sequence[float]) -> Interval:
    return bootstrap_interval(values, units=[episode.task.id for episode in episodes])
