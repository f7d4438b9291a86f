"""Depth curricula: TCOD (arXiv 2604.24005) and turnOPD (arXiv 2607.05804).

Fixed truncation (Fast OPD, arXiv 2602.15260) needs no formula: it is a constant turn or token limit in
training.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from turnpoint.credit._checks import FloatArray, count, finite, finite_vector, paired_vectors, within


def f2b_depth(step: int, *, max_turns: int, start: int = 1, interval: int = 2) -> int:
    """TCOD front to back: turns to roll out and train, ``min(start + step // interval, max_turns)``.

    ``step`` counts from 0, ``interval`` is the paper's eta.
    """
    grown = count(start, "start", 1) + count(step, "step") // count(interval, "interval", 1)
    return min(grown, count(max_turns, "max_turns", 1))


def b2f_expert_turns(step: int, *, expert_turns: int, interval: int = 2) -> int:
    """TCOD back to front: leading turns an expert plays at ``step``, ``max(0, L - 1 - step // interval)``.

    ``expert_turns`` is L, the length of the expert's episode; the student plays the rest.
    """
    remaining = count(expert_turns, "expert_turns", 1) - 1
    return max(0, remaining - count(step, "step") // count(interval, "interval", 1))


def depth_profile(turn_divergences: npt.ArrayLike, turn_counts: npt.ArrayLike) -> FloatArray:
    """turnOPD's distribution of learning signal over turn indices (arXiv 2607.05804).

    ``m_t = max(K_t, 0) * n_t / n_0`` and ``q = m / sum(m)``.

    Args:
        turn_divergences: ``[H]`` mean student-teacher divergence K_t at turn index t of un-capped probe
            rollouts.
        turn_counts: ``[H]`` number of probe rollouts n_t that reach turn t; ``n_0`` must be above 0.

    Returns q of shape ``[H]``, or zeros when no turn has a positive divergence.
    """
    signal, reached = paired_vectors(turn_divergences, "turn_divergences", turn_counts, "turn_counts")
    if signal.size == 0 or reached[0] <= 0:
        raise ValueError(
            "no probe rollout reached turn 0; probe with at least one rollout before setting a depth"
        )
    if np.any(reached < 0):
        index = int(np.flatnonzero(reached < 0)[0])
        raise ValueError(f"turn_counts[{index}] is {reached[index]}; a number of rollouts is not negative")
    mass = np.maximum(signal, 0.0) * reached / reached[0]
    total = math.fsum(mass)
    return mass / total if total > 0 else np.zeros_like(mass)


def effective_depth(profile: npt.ArrayLike) -> int | None:
    """turnOPD ``H_eff = round(sum_t t q_t)``, t from 0, halves to even; ``None`` for an all-zero profile."""
    q = finite_vector(profile, "profile")
    if not np.any(q):
        return None
    return round(float(np.arange(q.size) @ q))


def coverage_depth(success_turns: npt.ArrayLike, *, share: float = 0.8, minimum: int = 8) -> int | None:
    """turnOPD ``H_cov``: least 0-based turn index by which at least ``share`` of the successes were complete.

    Args:
        success_turns: ``[S]`` 0-based index of the final turn of every successful probe rollout.
        share: in (0, 1].
        minimum: fewer successes give ``None`` (no estimate).
    """
    turns = np.sort(finite_vector(success_turns, "success_turns"))
    if not 0.0 < finite(share, "share") <= 1.0:
        raise ValueError(f"share is {share}; set a number above 0 and at most 1")
    if turns.size < count(minimum, "minimum", 1):
        return None
    # The tolerance keeps 0.8 * 10 at 8 whatever the rounding of the product.
    needed = max(1, math.ceil(share * turns.size - 1e-9))
    return int(turns[needed - 1])


def depth_horizon(effective: int | None, coverage: int | None) -> int | None:
    """turnOPD ``H = max(H_eff, H_cov)`` over those known; ``None`` when neither is."""
    known = [depth for depth in (effective, coverage) if depth is not None]
    return max(known, default=None)


def smoothed_depth(previous: float | None, horizon: float, *, rate: float = 0.3) -> float:
    """turnOPD's moving average ``(1 - rate) * previous + rate * horizon``; the first horizon starts it."""
    new, step = finite(horizon, "horizon"), within(rate, "rate", 0.0, 1.0)
    return new if previous is None else (1.0 - step) * finite(previous, "previous") + step * new


def depth_cap(smoothed: float, *, low: int = 2, high: int = 50) -> int:
    """turnOPD's limit on turns, ``clip(round(smoothed) + 1, low, high)``: +1 makes a count of an index."""
    least, most = count(low, "low", 1), count(high, "high", 1)
    if least > most:
        raise ValueError(f"low is {least} but high is {most}; set low at most high")
    return min(max(round(finite(smoothed, "smoothed")) + 1, least), most)


def linear_alpha(step: int, total: int) -> float:
    """Linear schedule from 0 at ``step = 0`` to 1 at ``step = total`` and after."""
    return min(1.0, count(step, "step") / count(total, "total", 1))


def blended_turn_weights(turn_tokens: npt.ArrayLike, alpha: float) -> FloatArray:
    """turnOPD's turn weights ``(1 - alpha) * n_t / sum(n) + alpha / T`` (arXiv 2607.05804).

    ``turn_tokens`` holds the trained tokens n_t of every turn, ``[H]``; T counts the turns that have
    tokens, the others weigh 0. ``alpha`` lies in [0, 1]. The weights sum to 1.
    """
    tokens = finite_vector(turn_tokens, "turn_tokens")
    negative = np.flatnonzero(tokens < 0)
    if negative.size:
        raise ValueError(
            f"turn_tokens[{negative[0]}] is {tokens[negative[0]]}; a number of tokens is not negative"
        )
    mix = within(alpha, "alpha", 0.0, 1.0)
    spoken = tokens > 0
    if not np.any(spoken):
        raise ValueError("turn_tokens holds no tokens; leave episodes without trained tokens out")
    return np.asarray((1.0 - mix) * tokens / tokens.sum() + mix * spoken / spoken.sum())


def blended_token_weights(turn_tokens: npt.ArrayLike, alpha: float) -> FloatArray:
    """Weight of each token of a turn, ``[H]``: the turn weight, shared by n_t tokens, times ``sum(n)``.

    Its mean over the tokens of the episode is 1; ``alpha = 0`` gives exactly 1 for every token. Turns
    without tokens have weight 0.
    """
    blended_turn_weights(turn_tokens, alpha)
    tokens = finite_vector(turn_tokens, "turn_tokens")
    spoken = tokens > 0
    even = tokens.sum() / (spoken.sum() * np.where(spoken, tokens, 1.0))
    return np.where(spoken, 1.0 + float(alpha) * (even - 1.0), 0.0)
