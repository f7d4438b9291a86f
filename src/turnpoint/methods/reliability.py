"""How often a naming teacher is right, measured against the environment's oracle. Goes beyond the papers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import Field, PositiveFloat, PositiveInt

from turnpoint.config import ConfigError, Settings
from turnpoint.credit import posterior_share, wilson_interval
from turnpoint.envs import Capabilities
from turnpoint.envs.protocol import Knowledge
from turnpoint.methods.oracle_judge import OracleJudge
from turnpoint.methods.tally import Tally
from turnpoint.records import Episode, Group
from turnpoint.rollouts import Rollouts

T = TypeVar("T")
KINDS = ("turn", "action", "used", "recovery")
"""What is judged: a named turn (a mistake within one turn of it), the action named there, that action where it is
distilled in the end, and the action named for a turn of a recovery branch."""


class ReliabilitySettings(Settings):
    """Judge named turns and actions by the oracle, which then knows better than the teacher."""

    knowledge: Knowledge = "observed"
    """What the oracle may use: only what the episode had shown, or hidden state too."""
    per_step: PositiveInt = 64
    """Most named turns, and most recovery turns, that are judged in a step, drawn evenly."""
    prior: tuple[PositiveFloat, PositiveFloat] = (1.0, 1.0)
    """Beta prior: right and wrong names counted before any is judged."""
    keep: float = Field(default=1.0, gt=0.0, le=1.0)
    """Factor on the counts of earlier steps, for teachers that change (the student itself); 1 = nothing fades."""
    weigh: bool = False
    """Multiply the weight of every pivotal and recovery turn by the estimate for its kind and task type."""
    min_judged: PositiveInt = 20
    """Judged names of a task type below which the estimate over all types is used for it."""

    def check(self, capabilities: Capabilities) -> None:
        """Raise ``ConfigError`` if there is no oracle, or no way back to the states it is asked about."""
        if not (capabilities.oracle and (capabilities.snapshots or capabilities.deterministic)):
            raise ConfigError(
                "method.reliability asks the environment's oracle about recorded states, but this environment has no "
                "oracle or its states cannot be brought back; set method.reliability to null"
            )


@dataclass(slots=True)
class Counts:
    """Names judged; fractions once old ones fade."""

    right: float = 0.0
    judged: float = 0.0

    def add(self, right: bool) -> None:
        """One more."""
        self.right += right
        self.judged += 1


class Reliability:
    """Counts by teacher, task type and kind of name, for the whole run."""

    def __init__(self, settings: ReliabilitySettings, tally: Tally) -> None:
        self.settings = settings
        self.tally = tally
        self._counts: dict[str, dict[str, dict[str, Counts]]] = {}

    async def judge(self, groups: Sequence[Group], teacher: str, rollouts: Rollouts) -> None:
        """Judge what ``teacher`` named in a step, take it into the estimates, and weigh by them if so set."""
        self._fade(teacher)
        pivots = [
            (e, p) for g in groups for e in g.episodes for p in e.pivots if p.gold_action and p.source == "teacher"
        ]  # fmt: skip
        owners = {episode.id: episode for group in groups for episode in group.episodes}
        turns = [
            (owners[b.forked_from.episode], b, index)
            for g in groups
            for b in g.branches
            if b.forked_from is not None
            for index, turn in enumerate(b.turns)
            if turn.gold_actions
        ]
        judge = OracleJudge(rollouts, self.settings.knowledge, self.tally)
        asked = _drawn(pivots, self.settings.per_step, rollouts, "pivots")
        asked_turns = _drawn(turns, self.settings.per_step, rollouts, "recovery")
        found = await asyncio.gather(*(judge.pivot(episode, pivot) for episode, pivot in asked))
        told = await asyncio.gather(*(judge.recovery(*item) for item in asked_turns))
        for (episode, pivot), verdict in zip(asked, found, strict=True):
            if verdict is not None:
                self._add(teacher, episode, "turn", verdict[0])
                self._add(teacher, episode, "action", verdict[1])
                if pivot.resolved is not None:
                    self._add(teacher, episode, "used", verdict[1])
        for (episode, *_), right in zip(asked_turns, told, strict=True):
            if right is not None:
                self._add(teacher, episode, "recovery", right)
        if self.settings.weigh:
            for episode, pivot in pivots:
                if pivot.resolved is not None:
                    pivot.score = self._trust(teacher, episode, "used", pivot.score)
            for episode, branch, index in turns:
                turn = branch.turns[index]
                given = turn.scores.get("weight", (1.0,))[0]
                weight = self._trust(teacher, episode, "recovery", given)
                turn.scores["weight"] = (weight,) * len(turn.response_ids)
        self._report(teacher)

    def share(self, teacher: str, kind: str, task_type: str) -> float:
        """Estimated share of right names of a kind; over all task types where too few of one were judged."""
        counts = self._counts.get(teacher, {}).get(task_type, {}).get(kind, Counts())
        if counts.judged < self.settings.min_judged:
            counts = self._pooled(teacher, kind)
        return posterior_share(counts.right, counts.judged, self.settings.prior)

    def _trust(self, teacher: str, episode: Episode, kind: str, given: float | None) -> float:
        share = self.share(teacher, kind, episode.task.type)
        self.tally.mean(f"reliability/weight/{kind}", share)
        return (1.0 if given is None else given) * share

    def _add(self, teacher: str, episode: Episode, kind: str, right: bool) -> None:
        types = self._counts.setdefault(teacher, {})
        types.setdefault(episode.task.type, {}).setdefault(kind, Counts()).add(right)

    def _pooled(self, teacher: str, kind: str) -> Counts:
        found = [kinds[kind] for kinds in self._counts.get(teacher, {}).values() if kind in kinds]
        return Counts(sum(c.right for c in found), sum(c.judged for c in found))

    def _fade(self, teacher: str) -> None:
        for kinds in self._counts.get(teacher, {}).values():
            for counts in kinds.values():
                counts.right *= self.settings.keep
                counts.judged *= self.settings.keep

    def _report(self, teacher: str) -> None:
        """Estimates with their intervals as metrics, overall and by task type."""
        for kind in KINDS:
            counts = self._pooled(teacher, kind)
            if counts.judged == 0:
                continue
            self.tally.mean(
                f"reliability/{kind}", posterior_share(counts.right, counts.judged, self.settings.prior)
            )
            low, high = wilson_interval(counts.right, counts.judged)
            self.tally.mean(f"reliability_low/{kind}", low)
            self.tally.mean(f"reliability_high/{kind}", high)
            self.tally.mean(f"reliability_judged/{kind}", counts.judged)
            for task_type, kinds in self._counts[teacher].items():
                if task_type and (own := kinds.get(kind)) is not None:
                    share = posterior_share(own.right, own.judged, self.settings.prior)
                    self.tally.mean(f"reliability_by_type/{kind}/{task_type}", share)

    def state_dict(self) -> dict[str, Any]:
        """Counts as [right, judged], by teacher, task type and kind."""
        return {
            teacher: {
                task_type: {kind: [counts.right, counts.judged] for kind, counts in kinds.items()}
                for task_type, kinds in types.items()
            }
            for teacher, types in self._counts.items()
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of ``state_dict``."""
        self._counts = {
            teacher: {
                task_type: {kind: Counts(*map(float, counts)) for kind, counts in kinds.items()}
                for task_type, kinds in types.items()
            }
            for teacher, types in state.items()
        }


def _drawn(items: Sequence[T], most: int, rollouts: Rollouts, what: str) -> Sequence[T]:
    """At most ``most`` of the items, drawn evenly with a stream of the step."""
    if len(items) <= most:
        return items
    rng = rollouts.streams.rng("reliability", what, rollouts.step)
    return [items[i] for i in sorted(rng.choice(len(items), size=most, replace=False).tolist())]
