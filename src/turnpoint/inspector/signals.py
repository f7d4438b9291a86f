"""Per-token signals of a turn for showing: log-prob gaps, terms, and why tokens do not train.

Names in ``Turn.scores``: ``advantage`` is what a row was trained with; ``hinted``, ``teacher`` and ``reference``
are log-probs of the same tokens under another context or model, in nats; ``mask`` is 1 where a token trains and
0 where not; ``weight`` is a factor. Any other name is a term of the advantage.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from turnpoint.records import Turn

SCORERS = ("teacher", "hinted", "reference")
NOT_TERMS = frozenset({"advantage", "mask", "weight", *SCORERS})


def usable(turn: Turn) -> Mapping[str, Sequence[float]]:
    """Signals that have one value for each response token."""
    count = len(turn.response_ids)
    return {name: values for name, values in turn.scores.items() if count and len(values) == count}


def token_signals(turn: Turn) -> dict[str, Sequence[float]]:
    """Everything to colour tokens by, the most telling first; empty if the turn was never scored."""
    scores = usable(turn)
    if not scores:
        return {}
    found: dict[str, Sequence[float]] = {}
    if "advantage" in scores:
        found["advantage"] = scores["advantage"]
    for name in SCORERS:
        if name in scores and turn.logprobs:
            found[f"gap: {name}"] = [a - b for a, b in zip(scores[name], turn.logprobs, strict=True)]
    found |= {name: values for name, values in scores.items() if name != "advantage"}
    if turn.logprobs:
        found["logprob"] = turn.logprobs
    return found


def teacher_gap(turn: Turn) -> float | None:
    """How much the teacher (or the hinted student) prefers this response, mean per token in nats.

    Without recorded log-probs, the mean of all distillation terms stands in. None if there is neither.
    """
    scores = usable(turn)
    for name in SCORERS[:2]:
        if name in scores and turn.logprobs:
            return _mean([a - b for a, b in zip(scores[name], turn.logprobs, strict=True)])
    terms = [values for name, values in scores.items() if name not in NOT_TERMS]
    return _mean([sum(column) for column in zip(*terms, strict=True)]) if terms else None


def mean_advantage(turn: Turn) -> float | None:
    """Mean advantage per token, None without one."""
    values = usable(turn).get("advantage", ())
    return _mean(values) if values else None


def terms_of(turn: Turn) -> dict[str, int]:
    """Tokens that each term of the advantage touched (is not 0 on)."""
    return {
        name: touched
        for name, values in usable(turn).items()
        if name not in NOT_TERMS and (touched := sum(value != 0 for value in values))
    }


def why_untrained(turn: Turn, *, credited: bool) -> str:
    """Why a whole turn does not train, or nothing; ``credited``: the episode has advantages at all."""
    if turn.reused:
        return "context only: an earlier episode generated this turn, and it is trained there"
    if credited and turn.response_ids and "advantage" not in usable(turn):
        return "no row was made of this turn"
    if credited and not turn.response_ids:
        return "nothing was sampled"
    return ""


def _mean(values: Sequence[float]) -> float | None:
    mean = sum(values) / len(values)
    return mean if math.isfinite(mean) else None
