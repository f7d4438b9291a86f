"""Teacher-weighted forms of a reward advantage: RLSD, SDAR, SOD, AgentOPSD; and PivotRL's turn filter.

The reward decides the direction of the update, the teacher its size. With the coefficient at 0 every
function returns the given advantage bit for bit.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from turnpoint.credit._checks import (
    FloatArray,
    finite,
    finite_vector,
    paired_vectors,
    per_token,
    positive,
    within,
)
from turnpoint.credit.groups import ROUNDING, STD_FLOOR


def rlsd_weights(
    advantage: npt.ArrayLike, teacher: npt.ArrayLike, student: npt.ArrayLike, *, clip: float = 0.2
) -> FloatArray:
    """RLSD's token weights (arXiv 2604.03128).

    ``w = clip(exp(sign(A) * (log pi_T - log pi_S)), 1 - clip, 1 + clip)``.

    ``advantage`` is one number for the row or ``[L]``; the log-probs have shape ``[L]``; ``clip`` lies in
    [0, 1].
    Returns shape ``[L]``.
    """
    scored, sampled = paired_vectors(teacher, "teacher", student, "student")
    bound = within(clip, "clip", 0.0, 1.0)
    signed = np.sign(per_token(advantage, scored.size)) * (scored - sampled)
    # exp(1) exceeds every allowed bound, so the cap only avoids an overflow.
    return np.clip(np.exp(np.minimum(signed, 1.0)), 1.0 - bound, 1.0 + bound)


def rlsd_advantages(
    advantage: npt.ArrayLike,
    teacher: npt.ArrayLike,
    student: npt.ArrayLike,
    *,
    clip: float = 0.2,
    mix: float = 0.5,
) -> FloatArray:
    """RLSD: ``A_t = A * ((1 - mix) + mix * w_t)`` with :func:`rlsd_weights` (arXiv 2604.03128).

    ``mix`` is the paper's lambda, in [0, 1]; 0 is GRPO. The sign of A never flips. Returns shape ``[L]``.
    """
    weights = rlsd_weights(advantage, teacher, student, clip=clip)
    # A * (1 + mix (w - 1)) is the same mixture, exact where w = 1 or mix = 0.
    return per_token(advantage, weights.size) * (1.0 + within(mix, "mix", 0.0, 1.0) * (weights - 1.0))


def sdar_gate(teacher: npt.ArrayLike, student: npt.ArrayLike, *, beta: float = 5.0) -> FloatArray:
    """SDAR's gate ``g = sigmoid(beta * (log pi_T - log pi_S))`` per token, ``[L]`` (arXiv 2605.15155)."""
    scored, sampled = paired_vectors(teacher, "teacher", student, "student")
    return _sigmoid(positive(beta, "beta") * (scored - sampled))


def sdar_advantages(
    advantage: npt.ArrayLike,
    teacher: npt.ArrayLike,
    student: npt.ArrayLike,
    *,
    coef: float = 0.01,
    beta: float = 5.0,
) -> FloatArray:
    """SDAR: ``A_t = A + coef * g_t`` (arXiv 2605.15155).

    The auxiliary loss ``-coef * g * log pi`` has the gradient ``-coef * g * grad log pi``, which is that of
    an advantage ``coef * g`` on policy. It always raises the sampled token: agreement (difference 0) has g
    = 1/2, not 0. ``coef = 0`` is GRPO. Returns shape ``[L]``.
    """
    gate = sdar_gate(teacher, student, beta=beta)
    return per_token(advantage, gate.size) + finite(coef, "coef") * gate


def sod_step_weights(divergences: npt.ArrayLike, *, cap: float = 1.5, epsilon: float = 1e-8) -> FloatArray:
    """SOD's step weights (arXiv 2605.07725).

    ``w_1 = 1``, ``w_k = min(prod_{u<k} (d_u + eps) / (d_{u+1} + eps), cap)``.

    The uncapped product is carried on, and telescopes to ``(d_1 + eps) / (d_k + eps)``.

    Args:
        divergences: ``[K]`` student-teacher divergence of every step, not negative.
        cap: largest weight, at least 1.
        epsilon: above 0.

    Returns shape ``[K]``.
    """
    values = finite_vector(divergences, "divergences")
    negative = np.flatnonzero(values < 0)
    if negative.size:
        raise ValueError(
            f"divergences[{negative[0]}] is {values[negative[0]]}; a step divergence is not negative, "
            "pass a full-vocabulary KL or a k3 estimate instead of a sampled difference"
        )
    if finite(cap, "cap") < 1.0:
        raise ValueError(f"cap is {cap}; set at least 1, the weight of the first step")
    shifted = values + positive(epsilon, "epsilon")
    return np.minimum(shifted[:1] / shifted, cap) if shifted.size else shifted


def agentopsd_multipliers(
    advantage: npt.ArrayLike,
    turn_differences: npt.ArrayLike,
    *,
    prior: float = 0.5,
    scale: float = 0.2,
    clip: float = 0.2,
) -> FloatArray:
    """AgentOPSD's turn multipliers (arXiv 2608.05987).

    ``V_k = sigmoid(logit(prior) + sum_{j<=k} Delta_j)`` with ``V_0 = prior``; z is the standard score of
    ``V_k - V_{k-1}`` over the turns of the episode (population standard deviation, all z = 0 when it
    vanishes); ``m_k = clip(1 + scale * sign(A) * z_k, 1 - clip, 1 + clip)``.

    Args:
        advantage: one number for the episode or ``[K]``.
        turn_differences: ``[K]`` teacher minus student log-prob of every turn.
        prior: in (0, 1). scale: not negative. clip: in [0, 1].

    Returns shape ``[K]``.
    """
    differences = finite_vector(turn_differences, "turn_differences")
    sign = np.sign(per_token(advantage, differences.size))
    bound = within(clip, "clip", 0.0, 1.0)
    factor = within(scale, "scale", 0.0, math.inf) if math.isfinite(scale) else finite(scale, "scale")
    return np.clip(1.0 + factor * sign * _value_margins(differences, prior), 1.0 - bound, 1.0 + bound)


def agentopsd_advantages(
    advantage: npt.ArrayLike,
    turn_differences: npt.ArrayLike,
    *,
    mix: float = 0.5,
    prior: float = 0.5,
    scale: float = 0.2,
    clip: float = 0.2,
) -> FloatArray:
    """AgentOPSD: ``A_k = A * ((1 - mix) + mix * m_k)`` with :func:`agentopsd_multipliers` (arXiv 2608.05987).

    ``mix`` is the paper's lambda, in [0, 1]; 0 is GRPO. The sign of A never flips. Returns shape ``[K]``, one
    advantage per turn.
    """
    multipliers = agentopsd_multipliers(advantage, turn_differences, prior=prior, scale=scale, clip=clip)
    return per_token(advantage, multipliers.size) * (1.0 + within(mix, "mix", 0.0, 1.0) * (multipliers - 1.0))


def pivotrl_keep(rewards: npt.ArrayLike, ceiling: float) -> bool:
    """Whether PivotRL trains a turn: its local rollouts differ and average below ``ceiling``.

    arXiv 2603.21383. ``rewards`` has shape ``[G]`` with G >= 2, one per local rollout from the turn.
    """
    values = finite_vector(rewards, "rewards")
    if values.size < 2:
        raise ValueError(
            f"rewards has length {values.size}; a variance needs at least 2 rollouts of the turn"
        )
    spread = float(np.ptp(values)) > ROUNDING * float(np.max(np.abs(values)))
    return spread and math.fsum(values) / values.size < finite(ceiling, "ceiling")


def _value_margins(differences: FloatArray, prior: float) -> FloatArray:
    """Standard scores of the changes of the value estimate from turn to turn."""
    if not 0.0 < finite(prior, "prior") < 1.0:
        raise ValueError(f"prior is {prior}; set a probability strictly between 0 and 1")
    if differences.size == 0:
        return differences
    logits = math.log(prior) - math.log1p(-prior) + np.cumsum(differences)
    changes = np.diff(_sigmoid(logits), prepend=prior)
    std = float(np.std(changes))
    return np.zeros_like(changes) if std <= STD_FLOOR else (changes - np.mean(changes)) / std


def _sigmoid(values: FloatArray) -> FloatArray:
    # exp of a non-positive number never overflows.
    decay = np.exp(-np.abs(values))
    return np.where(values >= 0, 1.0, decay) / (1.0 + decay)
