"""Group-relative advantages: GRPO's episode groups and GiGPO's anchor-state groups (arXiv 2505.10978).

Conventions: the standard deviation is unbiased (ddof 1) with ``1e-6`` added. Two floors keep noise from
becoming a signal. A group whose values agree up to rounding (spread at most ``1e-12`` of the largest
magnitude) gives exactly 0. With ``"mean_std"`` a group also gives exactly 0 when its standard deviation is
at most ``5e-4`` of its largest magnitude (or at most ``1e-6``): float32 noise of a few 1e-4 would otherwise
be blown up to unit size. The floor is relative, so small rewards keep their signal. Sums are exact
(``math.fsum``), hence no result depends on row order.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable

import numpy as np
import numpy.typing as npt

from turnpoint.credit._checks import FloatArray, choice, finite_vector, keys, same_length

STD_EPSILON = 1e-6
"""Added to every standard deviation."""

STD_FLOOR = 1e-6
"""Standard deviations up to this size count as zero."""

RELATIVE_STD_FLOOR = 5e-4
"""Standard deviations up to this share of the group's largest magnitude count as zero."""

ROUNDING = 1e-12
"""A spread up to this share of the group's largest magnitude counts as equality."""


def group_advantages(
    values: npt.ArrayLike,
    groups: Iterable[Hashable],
    *,
    normalise: str = "mean",
    weights: npt.ArrayLike | None = None,
) -> FloatArray:
    """Advantage of every value relative to its group.

    ``"mean"`` gives ``v - mean``; ``"mean_std"`` gives ``(v - mean) / (std + 1e-6)`` (GRPO). A group of
    one, or a group of equal values, gives exactly 0 (see the module text for the floors).

    Args:
        values: ``[B]``, one per episode (every episode counts once) or one per row (long episodes count
            more); :func:`turnpoint.credit.episode_row_advantages` does either and spreads the result over
            the rows.
        groups: ``[B]`` hashable labels, such as task ids, in any order.
        normalise: ``"mean"`` or ``"mean_std"``.
        weights: ``[B]`` positive frequencies, default 1. A value of weight 1/n is one of n rows of a single
            observation: the mean is weighted and the variance is divided by (sum of weights - 1).

    Returns shape ``[B]``. Raises ValueError for lengths that differ or a non-finite value (naming its index).
    """
    vector = finite_vector(values, "values")
    labels = keys(groups, "groups")
    same_length("values", vector, "groups", labels)
    choice(normalise, "normalise", ("mean", "mean_std"))
    frequencies = np.ones_like(vector) if weights is None else _frequencies(weights, vector)
    result = np.zeros_like(vector)
    for rows in members(labels).values():
        result[rows] = _centred(vector[rows], frequencies[rows], normalise == "mean_std")
    return result


def step_advantages(
    returns: npt.ArrayLike,
    anchors: Iterable[Hashable],
    *,
    normalise: str,
    groups: Iterable[Hashable] | None = None,
) -> FloatArray:
    """GiGPO's step advantage A^S: rows that start from the same anchor state are compared (arXiv 2505.10978).

    Args:
        returns: ``[B]`` discounted return of every row.
        anchors: ``[B]`` hashable states; equality decides, so the groups do not depend on order. ``None``
            means that the row has no anchor: it is compared with nobody and gets 0.
        normalise: ``"mean"`` or ``"mean_std"``.
        groups: ``[B]`` task of every row; states are compared within a task only. Without it the caller
            puts the task into the anchor.

    Returns shape ``[B]``; a state seen once gives 0.
    """
    vector = finite_vector(returns, "returns")
    states = keys(anchors, "anchors")
    same_length("returns", vector, "anchors", states)
    tasks: list[Hashable] = [None] * len(states) if groups is None else keys(groups, "groups")
    same_length("returns", vector, "groups", tasks)
    known = [row for row, state in enumerate(states) if state is not None]
    result = np.zeros_like(vector)
    result[known] = group_advantages(
        vector[known], [(tasks[row], states[row]) for row in known], normalise=normalise
    )
    return result


def zero_variance_fraction(values: npt.ArrayLike, groups: Iterable[Hashable]) -> float:
    """Share of groups without any learning signal: a single value, or values that are equal up to rounding.

    ``values`` and ``groups`` have shape ``[B]``; B = 0 gives 0.
    """
    vector = finite_vector(values, "values")
    labels = keys(groups, "groups")
    same_length("values", vector, "groups", labels)
    parts = [vector[rows] for rows in members(labels).values()]
    return sum(_all_equal(part) for part in parts) / len(parts) if parts else 0.0


def members(labels: Iterable[Hashable]) -> dict[Hashable, list[int]]:
    """Row indices of every group, in order of first appearance."""
    result: dict[Hashable, list[int]] = {}
    for row, label in enumerate(labels):
        result.setdefault(label, []).append(row)
    return result


def _frequencies(weights: npt.ArrayLike, values: FloatArray) -> FloatArray:
    frequencies = finite_vector(weights, "weights")
    same_length("values", values, "weights", frequencies)
    bad = np.flatnonzero(frequencies <= 0)
    if bad.size:
        raise ValueError(
            f"weights[{bad[0]}] is {frequencies[bad[0]]}; set a number above 0, or leave the row out"
        )
    return frequencies


def _all_equal(values: FloatArray) -> bool:
    return bool(np.ptp(values) <= ROUNDING * np.max(np.abs(values)))


def _centred(values: FloatArray, weights: FloatArray, scale: bool) -> FloatArray:
    """Normalised values of one group; zeros where the group carries no signal."""
    size = math.fsum(weights)
    # Frequencies such as 1/3 three times sum to 1 only up to rounding.
    if size <= 1.0 + 1e-9 or _all_equal(values):
        return np.zeros_like(values)
    centred = values - math.fsum(weights * values) / size
    if not scale:
        return centred
    std = math.sqrt(math.fsum(weights * centred**2) / (size - 1.0))
    if std <= max(STD_FLOOR, RELATIVE_STD_FLOOR * float(np.max(np.abs(values)))):
        return np.zeros_like(values)
    return centred / (std + STD_EPSILON)
