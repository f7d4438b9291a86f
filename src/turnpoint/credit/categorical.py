"""Closed-form expected updates on a categorical policy: what a sampled rule does on average.

For logits z with ``p = softmax(z)`` the score is ``grad_z log p(y) = e_y - p``. A rule that draws y from
``b`` and gives it the advantage ``A_y`` moves the logits by ``sum_y b_y A_y (e_y - p)`` per unit of
learning rate.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from turnpoint.credit._checks import FloatArray, finite_vector, paired_vectors, same_length
from turnpoint.credit.distillation import distillation_advantages


def expected_logit_update(
    sampler: npt.ArrayLike, policy: npt.ArrayLike, advantages: npt.ArrayLike
) -> FloatArray:
    """``sum_y b_y A_y (e_y - p)``, the expected policy-gradient step on the logits of ``policy``.

    Args:
        sampler: ``[V]`` probabilities b that actions are drawn from.
        policy: ``[V]`` probabilities p of the trained policy.
        advantages: ``[V]`` advantage of every action.

    Returns shape ``[V]``; its entries sum to 0.
    """
    b, p = paired_vectors(sampler, "sampler", policy, "policy")
    _check_distribution(b, "sampler")
    _check_distribution(p, "policy")
    a = finite_vector(advantages, "advantages")
    same_length("advantages", a, "policy", p)
    weighted = b * a
    return np.asarray(weighted - p * weighted.sum())


def expected_recovery_update(
    hinted: npt.ArrayLike, plain: npt.ArrayLike, *, weight: float = 1.0, clip: float = 5.0
) -> FloatArray:
    """Expected update of PivotOPD's recovery rows (arXiv 2609.40285).

    y ~ hinted, ``A = weight * clip(log hinted/plain)``.

    ``hinted`` and ``plain`` are probabilities ``[V]``, all above 0. Actions that the plain policy starves
    but the hint favours get a large update, because the hinted policy samples them.
    """
    q, p = _positive_pair(hinted, plain)
    return expected_logit_update(
        q, p, distillation_advantages(np.log(q), np.log(p), weight=weight, clip=clip)
    )


def expected_preventive_update(
    hinted: npt.ArrayLike, plain: npt.ArrayLike, *, weight: float = 1.0
) -> FloatArray:
    """Expected update of PivotOPD's preventive term (arXiv 2609.40285).

    y ~ plain, ``A = weight * log(hinted/plain)``.

    This is ``-weight * grad_z KL(plain || hinted)``: a starved action is hardly ever sampled, so it hardly
    moves.
    """
    q, p = _positive_pair(hinted, plain)
    return expected_logit_update(p, p, distillation_advantages(np.log(q), np.log(p), weight=weight))


def _positive_pair(hinted: npt.ArrayLike, plain: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    q, p = paired_vectors(hinted, "hinted", plain, "plain")
    for name, values in (("hinted", q), ("plain", p)):
        if np.any(values <= 0):
            index = int(np.flatnonzero(values <= 0)[0])
            raise ValueError(f"{name}[{index}] is {values[index]}; every probability must be above 0")
    return q, p


def _check_distribution(values: FloatArray, name: str) -> None:
    if np.any(values < 0) or abs(float(values.sum()) - 1.0) > 1e-6:
        raise ValueError(
            f"{name} must be probabilities that sum to 1, got a sum of {float(values.sum()):.6g}"
        )
