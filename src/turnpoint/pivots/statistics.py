"""Means with bootstrap intervals, resampled over independent units (tasks, episodes, mistakes)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its percentile bootstrap interval."""

    mean: float
    low: float
    high: float
    n: int
    """Observations."""

    def as_dict(self) -> dict[str, float | int]:
        """Plain JSON."""
        return asdict(self)


def bootstrap_interval(
    values: Sequence[float] | npt.NDArray[np.float64],
    *,
    units: Sequence[Hashable] | None = None,
    level: float = 0.95,
    draws: int = 2000,
    seed: int = 0,
) -> Interval:
    """Mean of ``values`` [n] with its interval.

    ``units`` [n] names the independent unit of each value; whole units are resampled (several samples of one
    task are not independent). Raises ``ValueError`` for no values.
    """
    data = np.asarray(values, dtype=np.float64)
    if data.size == 0:
        raise ValueError("an interval needs at least one value")
    labels = list(range(data.size)) if units is None else list(units)
    if len(labels) != data.size:
        raise ValueError(f"{data.size} values but {len(labels)} units")
    index = {label: i for i, label in enumerate(dict.fromkeys(labels))}
    owner = np.array([index[label] for label in labels])
    sums = np.bincount(owner, weights=data, minlength=len(index))
    counts = np.bincount(owner, minlength=len(index)).astype(np.float64)
    drawn = np.random.default_rng(seed).integers(len(index), size=(draws, len(index)))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(data.mean()), float(low), float(high), int(data.size))
