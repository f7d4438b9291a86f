"""Per-token signals of a turn for showing: log-prob gaps, terms, and why tokens do not train.

Names in ``Turn.scores``: ``advantage`` is what a row was trained with; ``hinted``, ``teacher`` and ``reference``
are log-probs of the same tokens under another context or model, in nats; ``mask`` is 1 where a token trains and
0 where not; ``weight`` is a factor. Any other name is a term of the advantage.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from turnpoint.records import Turn

SCORERS = ("teacher", "hinted", "reference")
NOT_TERMS = frozenset({"advantage", "mask", "weight", *SCORERS})


class Scored(Protocol):
    """A turn or a reflection."""

    @property
    def response_ids(self) -> tuple[int, ...]: ...

    @property
    def logprobs(self) -> tuple[float, ...]: ...

    @property
    def scores(self) -> dict[str, tuple[float, ...]]: ...


def usable(turn: Scored) -> dict[str, list[float | None]]:
    """Signals for each response token; one that covers the first tokens only is None for the others."""
    count = len(turn.response_ids)
    return {
        name: [*values, *[None] * (count - len(values))]
        for name, values in turn.scores.items()
        if 0 < len(values) <= count
    }


def token_signals(turn: Scored) -> dict[str, Sequence[float | None]]:
    """Everything to colour tokens by, the most telling first; empty if the turn was never scored."""
    scores = usable(turn)
    if not scores:
        return {}
    found: dict[str, Sequence[float | None]] = {}
    if "advantage" in scores:
        found["advantage"] = scores["advantage"]
    for name in SCORERS:
        if name in scores and turn.logprobs:
            found[f"gap: {name}"] = _difference(scores[name], turn.logprobs)
    found |= {name: values for name, values in scores.items() if name != "advantage"}
    if turn.logprobs:
        found["logprob"] = turn.logprobs
    return found


def _difference(scored: Sequence[float | None], sampled: Sequence[float]) -> list[float | None]:
    return [None if a is None else a - b for a, b in zip(scored, sampled, strict=True)]


def teacher_gap(turn: Scored) -> float | None:
    """How much the teacher (or the hinted student) prefers this response, mean per scored token in nats.

    Without recorded log-probs, the mean of all distillation terms stands in. None if there is neither.
    """
    scores = usable(turn)
    for name in SCORERS[:2]:
        if name in scores and turn.logprobs:
            return _mean(_difference(scores[name], turn.logprobs))
    terms = [values for name, values in scores.items() if name not in NOT_TERMS]
    return _mean([sum(v or 0.0 for v in column) for column in zip(*terms, strict=True)]) if terms else None


def mean_advantage(turn: Scored) -> float | None:
    """Mean advantage per trained token, None without one."""
    return _mean(usable(turn).get("advantage", ()))


def terms_of(turn: Scored) -> dict[str, int]:
    """Tokens that each term of the advantage touched (is not 0 on)."""
    return {
        name: touched
        for name, values in usable(turn).items()
        if name not in NOT_TERMS and (touched := sum(bool(value) for value in values))
    }


def why_untrained(turn: Turn, *, credited: bool) -> str:
    """Why a turn or its last tokens do not train, or nothing; ``credited``: the episode has advantages at all."""
    trained, sampled = len(turn.scores.get("advantage", ())), len(turn.response_ids)
    if turn.reused:
        return "context only: an earlier episode generated this turn, and it is trained there"
    if not credited or trained == sampled > 0:
        return ""
    if not sampled:
        return "nothing was sampled"
    if 0 < trained < sampled:
        return f"the last {sampled - trained} tokens: the method trains the first {trained} only"
    return "no row was made of this turn"


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    mean = sum(known) / len(known) if known else math.nan
    return mean if math.isfinite(mean) else None
