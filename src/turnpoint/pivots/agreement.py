"""Agreement of a detector with the oracle, and with chance (PivotOPD's protocol).

A sample is right if one of its turns lies within ``window`` turns of the *first* oracle pivot; agreement is the mean
over samples, then over failed episodes that have an oracle pivot. Chance draws as many turns without replacement.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import comb
from typing import Any

WINDOW = 1
"""Turns between a detection and the pivot that still count as agreement."""


def near(turn: int, targets: Iterable[int], window: int = WINDOW) -> bool:
    """Whether ``turn`` lies within ``window`` turns of one of ``targets``."""
    return any(abs(turn - target) <= window for target in targets)


def sample_agreement(samples: Sequence[Sequence[int]], target: int, window: int = WINDOW) -> float:
    """Share of ``samples`` (turns each) that are right; an empty one is wrong. Raises ``ValueError`` for none."""
    if not samples:
        raise ValueError("agreement needs at least one sample")
    return sum(near(target, turns, window) for turns in samples) / len(samples)


def chance_agreement(turns: int, drawn: int, target: int, window: int = WINDOW) -> float:
    """Probability that one of ``drawn`` turns, without replacement out of ``turns``, is right.

    Exact: ``1 - C(T - w, m) / C(T, m)`` with w the number of turns that would be right.
    """
    if not 0 <= target < turns:
        raise ValueError(f"turn {target} does not lie in an episode of {turns} turns")
    drawn = min(drawn, turns)
    right = min(turns - 1, target + window) - max(0, target - window) + 1
    return 1 - comb(turns - right, drawn) / comb(turns, drawn)


@dataclass(slots=True)
class Calibration:
    """How often detections of each range of scores are right; flat memory."""

    edges: Sequence[float]
    """Inner borders between bins, ascending."""
    probability: bool
    n: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    total: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        bins = len(self.edges) + 1
        self.n, self.right, self.total = [0] * bins, [0] * bins, [0.0] * bins

    def add(self, score: float, right: bool) -> None:
        """Count one detection."""
        at = sum(score > edge for edge in self.edges)
        self.n[at] += 1
        self.right[at] += right
        self.total[at] += score

    def error(self) -> float | None:
        """Expected calibration error: mean distance of score and share, weighted by bin; None for other units."""
        if not self.probability or not sum(self.n):
            return None
        gaps = (abs(t - r) for t, r in zip(self.total, self.right, strict=True))
        return sum(gaps) / sum(self.n)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON: bins that hold anything, and the error."""
        borders = [None, *self.edges, None]
        bins = []
        for at, count in enumerate(self.n):
            if count:
                mean = self.total[at] / count
                bins.append(
                    {
                        "above": borders[at],
                        "to": borders[at + 1],
                        "n": count,
                        "score": mean if abs(mean) != float("inf") else None,
                        "right": self.right[at] / count,
                    }
                )
        return {"bins": bins, "error": self.error()}
