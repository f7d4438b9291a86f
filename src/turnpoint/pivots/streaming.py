"""Means with bootstrap intervals in flat memory, however many observations there are.

The bootstrap is the Poisson one: in each draw every independent unit (a task) weighs Poisson(1), and its weights
come from its name, so that observations of one unit may arrive at any time, in any order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from turnpoint.pivots.statistics import Interval

_BATCH = 256
_KEPT = 512
"""Units whose weights are remembered."""


class StreamingMeans:
    """Named means; a name is made by its first observation."""

    def __init__(self, *, draws: int = 1000, seed: int = 0) -> None:
        self.draws = draws
        self._seed = seed
        self._names: dict[str, int] = {}
        self._sums = np.zeros((draws, 0))
        self._counts = np.zeros((draws, 0))
        self._total = np.zeros(0)
        self._n = np.zeros(0, dtype=np.int64)
        self._waiting: list[tuple[str, Mapping[str, float | Sequence[float]]]] = []
        self._weights: dict[str, npt.NDArray[np.float64]] = {}

    def add(self, unit: str, values: Mapping[str, float | Sequence[float]]) -> None:
        """Observations of one unit: a number, or several, for each name."""
        self._waiting.append((unit, values))
        if len(self._waiting) >= _BATCH:
            self._flush()

    def names(self) -> list[str]:
        """All names, in order of their first observation."""
        self._flush()
        return list(self._names)

    def interval(self, name: str, level: float = 0.95) -> Interval | None:
        """The mean over all observations with its interval; None if there are none."""
        self._flush()
        at = self._names.get(name)
        if at is None or not self._n[at]:
            return None
        drawn = self._counts[:, at] > 0
        means = self._sums[drawn, at] / self._counts[drawn, at]
        mean = float(self._total[at] / self._n[at])
        low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2]) if len(means) else (mean, mean)
        return Interval(mean, float(low), float(high), int(self._n[at]))

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        for _, values in waiting:
            for name in values:
                self._names.setdefault(name, len(self._names))
        self._grow(len(self._names))
        sums = np.zeros((len(waiting), len(self._names)))
        counts = np.zeros_like(sums)
        for row, (_, values) in enumerate(waiting):
            for name, value in values.items():
                at = self._names[name]
                if isinstance(value, Sequence):
                    sums[row, at], counts[row, at] = sum(value), len(value)
                else:
                    sums[row, at], counts[row, at] = value, 1
        weights = np.stack([self._weigh(unit) for unit, _ in waiting], axis=1)
        self._sums += weights @ sums
        self._counts += weights @ counts
        self._total += sums.sum(axis=0)
        self._n += counts.sum(axis=0).astype(np.int64)

    def _grow(self, size: int) -> None:
        more = size - len(self._n)
        if more:
            self._sums = np.pad(self._sums, ((0, 0), (0, more)))
            self._counts = np.pad(self._counts, ((0, 0), (0, more)))
            self._total = np.pad(self._total, (0, more))
            self._n = np.pad(self._n, (0, more))

    def _weigh(self, unit: str) -> npt.NDArray[np.float64]:
        if unit not in self._weights:
            if len(self._weights) >= _KEPT:
                self._weights.pop(next(iter(self._weights)))
            digest = hashlib.blake2b(
                f"{self._seed}/{unit}".encode("utf-8", "replace"), digest_size=8
            ).digest()
            rng = np.random.default_rng(int.from_bytes(digest, "big"))
            self._weights[unit] = rng.poisson(1.0, self.draws).astype(np.float64)
        return self._weights[unit]
