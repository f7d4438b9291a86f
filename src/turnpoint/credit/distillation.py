"""Sampled distillation advantages: differences of log-probs that enter the loss as stop-gradient advantages.

A sampled difference must be an *advantage*. As a differentiable loss its expected gradient is zero and the
teacher drops out. All arrays have shape ``[L]``: one entry per response token of one row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from turnpoint.credit._checks import (
    FloatArray,
    finite,
    finite_vector,
    paired_vectors,
    per_token,
    positive,
    same_length,
)


def distillation_advantages(
    hinted: npt.ArrayLike, plain: npt.ArrayLike, *, weight: float, clip: float | None = None
) -> FloatArray:
    """``weight * clip(hinted - plain, -clip, clip)``: clip first, then weight (PivotOPD, arXiv 2609.40285).

    Preventive and lesson terms are not clipped (``clip=None``); recovery rows use ``clip=delta``, so
    ``|A| <= |weight| * delta``. A teacher that agrees with the student gives exactly 0.

    Args:
        hinted: ``[L]`` log-probs of the sampled tokens under the teacher (the self-teacher given the hint).
        plain: ``[L]`` log-probs of the same tokens under the same weights without the hint.
        weight: finite factor, applied last.
        clip: bound on the difference, above 0; ``None`` for no bound.

    Raises ValueError for lengths that differ or a non-finite log-prob (naming its index).
    """
    teacher, student = paired_vectors(hinted, "hinted", plain, "plain")
    difference = teacher - student
    if clip is not None:
        bound = positive(clip, "clip")
        difference = np.clip(difference, -bound, bound)
    return finite(weight, "weight") * difference


def reverse_kl_advantages(teacher: npt.ArrayLike, student: npt.ArrayLike, *, coef: float = 1.0) -> FloatArray:
    """On-policy distillation: ``A_t = coef * (log pi_T - log pi_old)`` on tokens the student sampled.

    In expectation its policy gradient is that of ``-coef * KL(pi_theta || pi_T)``. Used by OPD and by STRIDE
    (arXiv 2609.14636) on the turns that are trained. Shapes ``[L]``.
    """
    scored, sampled = paired_vectors(teacher, "teacher", student, "student")
    return finite(coef, "coef") * (scored - sampled)


def combined_advantages(
    advantage: npt.ArrayLike,
    plain: npt.ArrayLike,
    terms: Iterable[tuple[npt.ArrayLike, float]] | Mapping[str, tuple[npt.ArrayLike, float]],
) -> FloatArray:
    """``A + sum_i weight_i * (hinted_i - plain)`` per token; nothing is clipped.

    PivotOPD's preventive and lesson terms (arXiv 2609.40285) and OPID (arXiv 2606.26790) have this form.
    Without terms, or with weights of 0, the result equals ``advantage`` bit for bit.

    Args:
        advantage: one number for the row or ``[L]``.
        plain: ``[L]`` log-probs of the sampled tokens in the plain context.
        terms: pairs ``(hinted [L], weight)``; with a mapping its keys name the terms in error messages.
    """
    base = finite_vector(plain, "plain")
    total = per_token(advantage, base.size)
    named = terms.items() if isinstance(terms, Mapping) else enumerate(terms)
    for name, (hinted, weight) in named:
        scored = finite_vector(hinted, f"terms[{name!r}]")
        same_length(f"terms[{name!r}]", scored, "plain", base)
        total = total + finite(weight, f"weight of terms[{name!r}]") * (scored - base)
    return total


def opid_advantages(
    advantage: npt.ArrayLike,
    plain: npt.ArrayLike,
    episode_hinted: npt.ArrayLike | None,
    step_hinted: npt.ArrayLike | None,
    *,
    episode_weight: float = 0.001,
    step_weight: float = 0.001,
) -> FloatArray:
    """OPID (arXiv 2606.26790): ``A + w_e * Delta(episode skill) + w_s * Delta(step skill)``.

    ``advantage`` is the mean-only group advantage (a number or ``[L]``), the log-probs have shape ``[L]``;
    ``None`` stands for a skill that was not found, which adds nothing.
    """
    terms = {
        name: (hinted, weight)
        for name, hinted, weight in (
            ("episode_hinted", episode_hinted, episode_weight),
            ("step_hinted", step_hinted, step_weight),
        )
        if hinted is not None
    }
    return combined_advantages(advantage, plain, terms)
