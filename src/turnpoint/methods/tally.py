"""Counters of a step: everything a method dropped, used or met, by name."""

from __future__ import annotations

import math


class Tally:
    """Sums and means by name; ``take`` gives them out and starts anew."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._means: dict[str, tuple[float, int]] = {}

    def add(self, name: str, amount: float = 1.0) -> None:
        """Count something."""
        self._sums[name] = self._sums.get(name, 0.0) + amount

    def mean(self, name: str, value: float, weight: int = 1) -> None:
        """Contribute ``weight`` observations of mean ``value``; non-finite values are counted apart."""
        if not math.isfinite(value):
            self.add(f"{name}/not_finite", weight)
            return
        total, count = self._means.get(name, (0.0, 0))
        self._means[name] = (total + value * weight, count + weight)

    def get(self, name: str) -> float:
        """Current sum of ``name``, 0 if nothing was counted."""
        return self._sums.get(name, 0.0)

    def take(self) -> dict[str, float]:
        """All sums and means, sorted by name; the tally is empty afterwards."""
        means = {name: total / count for name, (total, count) in self._means.items() if count}
        result = dict(sorted((self._sums | means).items()))
        self._sums, self._means = {}, {}
        return result
