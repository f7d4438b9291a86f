"""Divergences between next-token distributions, as reference values in plain NumPy.

A divergence does not depend on the sampled token, so it is a loss, never an advantage. Training computes it
in the backend; these functions define what it must equal.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from turnpoint.credit._checks import FloatArray, choice, within

MASS_TOLERANCE = 1e-4
"""How far the total probability may be from 1 (float32 log-softmax over a large vocabulary)."""

TAIL_FLOOR = 1e-12
"""Least probability of the tail bucket, so that a rounded-away tail never makes a divergence infinite."""


def with_tail_bucket(logprobs: npt.ArrayLike) -> FloatArray:
    """Append the log of the probability that the entries leave over: ``[..., k]`` to ``[..., k+1]``.

    Both distributions must list the same k tokens. Raises ValueError when the listed probabilities exceed 1.
    """
    values = _logprobs(logprobs, "logprobs")
    rest = 1.0 - np.exp(values).sum(axis=-1, keepdims=True)
    if rest.size and rest.min() < -MASS_TOLERANCE:
        raise ValueError(f"probabilities sum to {1.0 - rest.min():.6g}; pass log-probs of distinct tokens")
    return np.concatenate([values, np.log(np.maximum(rest, TAIL_FLOOR))], axis=-1)


def generalised_jsd(
    teacher: npt.ArrayLike, student: npt.ArrayLike, *, beta: float = 0.5, tail: bool = False
) -> FloatArray:
    """Generalised Jensen-Shannon divergence over the last axis (GKD, arXiv 2306.13649, Eq. 1).

    ``beta * KL(T || M) + (1 - beta) * KL(S || M)`` with ``M = beta * T + (1 - beta) * S`` for
    ``0 < beta < 1``. The ends are the plain divergences, as in common implementations: ``beta = 0`` is
    forward ``KL(T || S)`` and ``beta = 1`` is reverse ``KL(S || T)``.

    Args:
        teacher: ``[..., V]`` log-probs; ``-inf`` is an impossible token.
        student: ``[..., V]`` log-probs of the same tokens.
        beta: in [0, 1].
        tail: the entries are a top-k subset; the mass left over is compared as one more outcome. A subset
            without ``tail`` is an error.

    Returns shape ``[...]``, in nats, never negative (rounding is clipped after the sum).
    Raises ValueError when shapes differ or a plain KL is infinite.
    """
    p, q = _logprobs(teacher, "teacher"), _logprobs(student, "student")
    if p.shape != q.shape:
        raise ValueError(f"teacher has shape {p.shape} but student has shape {q.shape}; they must match")
    weight = within(beta, "beta", 0.0, 1.0)
    if tail:
        p, q = with_tail_bucket(p), with_tail_bucket(q)
    else:
        _check_mass(p, "teacher")
        _check_mass(q, "student")
    if weight in (0.0, 1.0):
        return (
            _finite_kl(p, q, "teacher", "student")
            if weight == 0.0
            else _finite_kl(q, p, "student", "teacher")
        )
    mixture = np.logaddexp(np.log(weight) + p, np.log1p(-weight) + q)
    total = weight * _kl(p, mixture) + (1.0 - weight) * _kl(q, mixture)
    return np.maximum(total, 0.0)


def divergence(
    teacher: npt.ArrayLike, student: npt.ArrayLike, *, direction: str, beta: float = 0.5, tail: bool = False
) -> FloatArray:
    """A divergence by name: ``"forward"`` KL(T || S), ``"reverse"`` KL(S || T), ``"jsd"`` with ``beta``.

    Shapes and errors as :func:`generalised_jsd`; ``"jsd"`` wants ``0 < beta < 1``.
    """
    choice(direction, "direction", ("forward", "reverse", "jsd"))
    if direction == "jsd" and beta in (0.0, 1.0):
        raise ValueError(
            f"direction='jsd' with beta={beta} is a plain KL; set direction='forward' or 'reverse'"
        )
    return generalised_jsd(
        teacher, student, beta={"forward": 0.0, "reverse": 1.0}.get(direction, beta), tail=tail
    )


def _logprobs(values: npt.ArrayLike, name: str) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 0 or array.shape[-1] == 0:
        raise ValueError(f"{name} must have a non-empty last axis of outcomes, got shape {array.shape}")
    bad = np.argwhere(np.isnan(array) | (array > MASS_TOLERANCE))
    if bad.size:
        index = tuple(int(i) for i in bad[0])
        raise ValueError(
            f"{name}{list(index)} is {array[index]}, which is no log-prob; pass log-probs, not probabilities"
        )
    return array


def _check_mass(logprobs: FloatArray, name: str) -> None:
    mass = np.exp(logprobs).sum(axis=-1)
    off = np.abs(mass - 1.0) > MASS_TOLERANCE
    if np.any(off):
        raise ValueError(
            f"{name} probabilities sum to {mass[off].flat[0]:.6g}; "
            "set tail=True for a top-k subset, or normalise them"
        )


def _kl(p: FloatArray, q: FloatArray) -> FloatArray:
    """``KL(p || q)`` over the last axis; outcomes that p never takes add 0."""
    with np.errstate(invalid="ignore"):
        terms = np.where(np.isneginf(p), 0.0, np.exp(p) * (p - q))
    return np.asarray(np.maximum(terms.sum(axis=-1), 0.0))


def _finite_kl(p: FloatArray, q: FloatArray, name_p: str, name_q: str) -> FloatArray:
    value = _kl(p, q)
    if not np.all(np.isfinite(value)):
        raise ValueError(
            f"KL({name_p} || {name_q}) is infinite: the {name_q} gives probability 0 to an outcome "
            f"of the {name_p}; set 0 < beta < 1, or leave no token impossible"
        )
    return value
