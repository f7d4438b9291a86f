"""How far the plain policy is from its hinted self in the turns after a mistake (PivotOPD Figure 7)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from turnpoint.pivots.oracle import first_oracle_pivot
from turnpoint.pivots.statistics import Interval, bootstrap_interval
from turnpoint.policy import ScoreRequest
from turnpoint.policy.protocol import Floats
from turnpoint.records import Episode, RecordError
from turnpoint.rollouts import Scorer


@runtime_checkable
class MeasuresDivergence(Protocol):
    """A policy that can compare whole distributions."""

    def divergences(
        self, pairs: Sequence[tuple[ScoreRequest, ScoreRequest]], direction: str = "forward"
    ) -> list[Floats]:
        """Divergence [len(response)] of each (teacher, student) pair over the same response."""


@dataclass(slots=True)
class AfterMistake:
    """Mean forward KL self-teacher -> student per token, by turns after the mistake."""

    by_offset: dict[int, Interval] = field(default_factory=dict)
    """Offset 1 is the first turn after the mistake; the mistake itself (0) is excluded. Intervals over episodes."""
    episodes: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    """Episodes and turns that give no value, by reason."""

    def as_dict(self) -> dict[str, object]:
        """Plain JSON."""
        return {
            "episodes": self.episodes,
            "by_offset": {str(k): v.as_dict() for k, v in self.by_offset.items()},
            "left_out": dict(self.left_out),
        }


def divergence_after_mistakes(episodes: Sequence[Episode], scorer: Scorer) -> AfterMistake:
    """KL(hinted || plain) of recorded responses after the first oracle pivot.

    The hint of a turn names its first gold action (see ``name_best_actions``). Raises ``RecordError`` for a policy
    that cannot compare distributions.
    """
    if not isinstance(scorer.policy, MeasuresDivergence):
        raise RecordError(
            "this policy cannot compare whole distributions; the KL after mistakes needs policy.kind local or small"
        )
    result = AfterMistake()
    owners: list[tuple[str, int]] = []
    pairs: list[tuple[ScoreRequest, ScoreRequest]] = []
    for episode in episodes:
        pivot = first_oracle_pivot(episode)
        if pivot is None:
            result.left_out["episode without a pivot"] += 1
            continue
        result.episodes += 1
        for place in range(pivot + 1, len(episode.turns)):
            turn = episode.turns[place]
            if not turn.gold_actions or not turn.response_ids:
                result.left_out["turn without gold action or tokens"] += 1
                continue
            hinted = scorer.hinted(turn, scorer.prompter.hint_text(turn.gold_actions[0]))
            plain = scorer.plain(turn)
            if hinted is None or plain is None:
                result.left_out["turn whose prompt does not fit"] += 1
                continue
            owners.append((episode.id, place - pivot))
            pairs.append((hinted, plain))
    values: dict[int, list[tuple[str, float]]] = defaultdict(list)
    for (episode_id, offset), found in zip(owners, scorer.policy.divergences(pairs), strict=True):
        values[offset].append((episode_id, float(found.mean())))
    for offset, entries in sorted(values.items()):
        result.by_offset[offset] = bootstrap_interval([v for _, v in entries], units=[e for e, _ in entries])
    return result
