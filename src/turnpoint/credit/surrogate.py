"""Values of clipped surrogate losses and importance ratios, as references for the training backend."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from turnpoint.credit._checks import FloatArray, finite, finite_vector, paired_vectors, positive


def ppo_surrogate(
    ratios: npt.ArrayLike,
    advantages: npt.ArrayLike,
    *,
    clip: float = 0.2,
    clip_high: float | None = None,
    dual_clip: float | None = None,
) -> FloatArray:
    """Per-token PPO loss ``-min(rho A, clip(rho, 1 - eps, 1 + eps) A)`` (PPO, arXiv 1707.06347, Eq. 7).

    Args:
        ratios: ``[L]`` importance ratios ``pi_theta / pi_old``, not negative.
        advantages: ``[L]``.
        clip: eps below 1, in (0, 1) in common use.
        clip_high: eps above 1, default ``clip``.
        dual_clip: c > 1; for A < 0 the loss is at most ``c |A|`` (arXiv 1912.09729). Default off.

    Returns shape ``[L]``.
    """
    rho, advantage = paired_vectors(ratios, "ratios", advantages, "advantages")
    negative = np.flatnonzero(rho < 0)
    if negative.size:
        raise ValueError(f"ratios[{negative[0]}] is {rho[negative[0]]}; pass ratios, not log-ratios")
    low = positive(clip, "clip")
    high = low if clip_high is None else positive(clip_high, "clip_high")
    loss = -np.minimum(rho * advantage, np.clip(rho, 1.0 - low, 1.0 + high) * advantage)
    if dual_clip is None:
        return loss
    if finite(dual_clip, "dual_clip") <= 1.0:
        raise ValueError(f"dual_clip is {dual_clip}; set a number above 1, or None to switch it off")
    return np.where(advantage < 0, np.minimum(loss, -dual_clip * advantage), loss)


def gspo_ratio(log_ratios: npt.ArrayLike) -> float:
    """GSPO's sequence ratio ``exp(mean_t(log pi_theta - log pi_old))`` of one row (arXiv 2507.18071).

    ``log_ratios`` has shape ``[L]``, trainable tokens only, L >= 1.
    """
    values = finite_vector(log_ratios, "log_ratios")
    if values.size == 0:
        raise ValueError("log_ratios is empty; leave rows without trainable tokens out")
    return math.exp(math.fsum(values) / values.size)
