"""STRIDE's window: where a rollout stops and where the next one restarts (arXiv 2609.14636).

A turn score is the mean teacher log-prob of the student's tokens of that turn. Turns are counted from 1.
``None`` stands for a turn without tokens: it adds nothing to the sum and is not correct.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from turnpoint.credit._checks import FloatArray, choice, count, finite, finite_vector, positive, within

ROUNDING = 1e-12
"""A sum this close to the threshold, relative to it, counts as equal and does not stop."""


def early_stop_turn(
    turn_scores: Sequence[float | None] | FloatArray, threshold: float, reused: int = 0
) -> int | None:
    """First turn K with ``sum_{j = reused+1..K} score_j < threshold``, or ``None`` when no turn reaches it.

    Args:
        turn_scores: one score per turn so far, reused turns included; ``None`` for a turn without tokens.
        threshold: lambda, below 0; the comparison is strict. ``-inf`` never stops (plain OPD).
        reused: number of leading turns taken over from an earlier rollout; they are never counted.

    Returns the 1-based turn after which the rollout stops. That turn is still trained.
    Raises ValueError for a threshold that is NaN or at least 0 (it would stop everything), a non-finite
    score, or more reused turns than scores.
    """
    limit = _threshold(threshold)
    start = _reused(reused, len(turn_scores))
    spent = [0.0 if score is None else score for score in turn_scores]
    return _first_below(finite_vector(spent, "turn_scores"), limit, start)


def early_stop_token(logprobs: npt.ArrayLike, threshold: float) -> int | None:
    """Single-turn form: number of tokens kept when the cumulative teacher log-prob falls below ``threshold``.

    ``logprobs`` has shape ``[L]``. The token that crosses the threshold is the last one kept. ``None`` when
    the whole response stays at or above it.
    """
    return _first_below(finite_vector(logprobs, "logprobs"), _threshold(threshold), 0)


def leading_run(turn_scores: Sequence[float | None] | FloatArray, floor: float | None) -> int:
    """``Kmax``: length of the leading run of correct turns, those with a score strictly above ``floor``.

    ``floor`` is alpha, ``None`` accepts every turn that has tokens. A turn without tokens ends the run.
    """
    limit = -math.inf if floor is None else _floor(floor)
    _finite_scores(turn_scores)
    for turn, score in enumerate(turn_scores):
        if score is None or not score > limit:
            return turn
    return len(turn_scores)


def restart_turn(
    turn_scores: Sequence[float | None] | FloatArray,
    floor: float | None,
    *,
    argmin_over: str = "all",
    reused: int = 0,
) -> int | None:
    """Turn ``k* = argmin_{1..Kmax} score_k`` (first minimum) where the next rollout resamples.

    The next rollout reuses turns ``1..k*-1``; so ``k* = 1`` reuses nothing, like a full restart.

    Args:
        turn_scores: one score per turn, reused turns included; ``None`` for a turn without tokens.
        floor: alpha, see :func:`leading_run`; ``None`` switches it off.
        argmin_over: ``"all"`` searches turns 1..Kmax as the paper does, and can pick the same reused turn
            for ever; ``"new"`` searches newly generated turns only (``reused+1..Kmax``).
        reused: number of leading turns taken over from an earlier rollout; read by ``"new"`` only.

    Returns the 1-based turn, or ``None`` (full restart) when no turn qualifies.
    """
    choice(argmin_over, "argmin_over", ("all", "new"))
    start = _reused(reused, len(turn_scores)) if argmin_over == "new" else 0
    candidates = [
        float(score) for score in turn_scores[: leading_run(turn_scores, floor)][start:] if score is not None
    ]
    if not candidates:
        return None
    return start + candidates.index(min(candidates)) + 1


def threshold_from_errors(sums_at_first_error: npt.ArrayLike, *, quantile: float = 0.5) -> float:
    """Calibrated lambda: a quantile of the cumulative score at the first wrong turn of failed episodes.

    Goes beyond the paper. ``sums_at_first_error`` has shape ``[E]``; a higher quantile stops earlier. Raises
    ValueError when the result is not below 0.
    """
    values = finite_vector(sums_at_first_error, "sums_at_first_error")
    if values.size == 0:
        raise ValueError(
            "sums_at_first_error is empty; set the threshold by hand, or give episodes with a known error"
        )
    return _usable(float(np.quantile(values, within(quantile, "quantile", 0.0, 1.0))))


def threshold_from_successes(
    episodes: Sequence[Sequence[float | None] | FloatArray], *, turns: float = 1.0
) -> float:
    """Calibrated lambda: ``turns`` times the mean turn score of successful episodes.

    Goes beyond the paper, which notes that lambda counts turns (one costs about 0.65-0.78). ``episodes``
    holds the turn scores of every episode. Raises ValueError when there is no score or the result is not
    below 0.
    """
    scores = [finite(score, "turn score") for episode in episodes for score in episode if score is not None]
    if not scores:
        raise ValueError(
            "episodes hold no turn scores; set the threshold by hand, or give successful episodes"
        )
    return _usable(positive(turns, "turns") * math.fsum(scores) / len(scores))


def _first_below(scores: FloatArray, limit: float, start: int) -> int | None:
    if math.isinf(limit):
        return None
    # Extended precision and the tolerance keep "strict" true for decimal scores that sum to the threshold.
    sums = np.cumsum(scores[start:], dtype=np.longdouble)
    below = np.flatnonzero(sums < limit * (1.0 + ROUNDING))
    return start + int(below[0]) + 1 if below.size else None


def _threshold(threshold: float) -> float:
    limit = float(threshold)
    if math.isnan(limit) or limit >= 0:
        raise ValueError(
            f"threshold is {limit}; a sum of log-probs starts at 0, so set a number below 0 "
            "(about -0.7 per turn to allow), or -inf to switch early stopping off"
        )
    return limit


def _floor(floor: float) -> float:
    limit = float(floor)
    if math.isnan(limit) or limit == math.inf:
        raise ValueError(f"floor is {limit}; set a log-prob such as -0.8, or None to switch it off")
    return limit


def _reused(reused: int, turns: int) -> int:
    start = count(reused, "reused")
    if start > turns:
        raise ValueError(
            f"reused is {start} but there are {turns} turn scores; include the reused turns' scores"
        )
    return start


def _finite_scores(turn_scores: Sequence[float | None] | FloatArray) -> None:
    finite_vector([0.0 if score is None else score for score in turn_scores], "turn_scores")


def _usable(threshold: float) -> float:
    if threshold >= 0:
        raise ValueError(
            f"the calibrated threshold is {threshold}; scores must be log-probs below 0, set it by hand"
        )
    return threshold
