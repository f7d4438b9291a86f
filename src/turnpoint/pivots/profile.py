"""How a teacher's log-probs run through episodes (STRIDE section 3); flat memory.

Three views of log-probs of the student's tokens under the teacher, and of their gap to the student's own: by turn; by
position in the turn (tenths of what follows the leading tokens, each token counted once); and aligned at the first
error after the mean of each turn number is removed, with Cohen's d of turns after the error against turns before it.
The gap ``log pi_student - log pi_teacher`` of sampled tokens is the sampled estimate of KL(student || teacher).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import numpy as np

from turnpoint.pivots.detectors.logprob_drop import TEACHER, fully_scored
from turnpoint.pivots.oracle import first_oracle_pivot
from turnpoint.policy.protocol import Floats
from turnpoint.records import Episode

DECILES = 10
SIGNALS = ("logprob", "gap")
NO_POSITIONS = "turn within the leading tokens that positions leave out"


@dataclass(slots=True)
class Moments:
    """Count, sum and sum of squares."""

    n: int = 0
    total: float = 0.0
    squares: float = 0.0

    def add(self, *values: float) -> None:
        """Observations."""
        self.n += len(values)
        self.total += sum(values)
        self.squares += sum(value * value for value in values)

    @property
    def mean(self) -> float:
        """Mean; 0 of nothing."""
        return self.total / self.n if self.n else 0.0


@dataclass(slots=True)
class TeacherProfile:
    """Takes episodes whose turns hold teacher scores."""

    skip_tokens: int = 150
    """Leading tokens of a turn that positions do not count (the paper's)."""
    episodes: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    """Episodes by reason, and turns under ``NO_POSITIONS``."""
    turns: dict[str, dict[int, Moments]] = field(default_factory=lambda: {s: {} for s in SIGNALS})
    positions: dict[str, list[Moments]] = field(
        default_factory=lambda: {s: [Moments() for _ in range(DECILES)] for s in SIGNALS}
    )
    aligned: dict[str, dict[tuple[int, int], Moments]] = field(
        default_factory=lambda: {s: defaultdict(Moments) for s in SIGNALS}
    )
    """By (offset from the first error, turn number)."""

    def add(self, episode: Episode) -> None:
        """Count an episode; one without teacher scores is counted as left out."""
        scored = [
            (place, t) for place, t in enumerate(episode.turns) if fully_scored(t, TEACHER) and not t.reused
        ]
        if not scored:
            self.left_out["no teacher scores"] += 1
            return
        self.episodes += 1
        error = first_error(episode)
        if error is None:
            self.left_out["no error to align at"] += 1
        for place, turn in scored:
            self.left_out[NO_POSITIONS] += len(turn.response_ids) <= self.skip_tokens
            teacher = np.asarray(turn.scores[TEACHER])
            signals = {"logprob": teacher}
            if len(turn.logprobs) == len(teacher):
                signals["gap"] = np.asarray(turn.logprobs) - teacher
            for name, values in signals.items():
                mean = float(values.mean())
                self.turns[name].setdefault(place, Moments()).add(mean)
                if error is not None:
                    self.aligned[name][place - error, place].add(mean)
                self._positions(name, values)

    def _positions(self, name: str, values: Floats) -> None:
        """Each token counts once, in the decile that its own middle lies in."""
        rest = values[self.skip_tokens :]
        deciles = (2 * np.arange(len(rest)) + 1) * DECILES // (2 * max(1, len(rest)))
        for decile in np.unique(deciles):
            self.positions[name][decile].add(*rest[deciles == decile].tolist())

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "episodes": self.episodes,
            "left_out": dict(+self.left_out),
            **{name: self._signal(name) for name in SIGNALS},
        }

    def _signal(self, name: str) -> dict[str, Any]:
        turns = dict(sorted(self.turns[name].items()))
        return {
            "by_turn": {str(t): {"mean": m.mean, "n": m.n} for t, m in turns.items()},
            "by_decile": [{"mean": m.mean, "n": m.n} if m.n else None for m in self.positions[name]],
            "by_offset": {
                str(offset): {"mean": total / n, "n": n}
                for offset, (n, total, _) in sorted(self._residuals(name).items())
            },
            "cohens_d": self.cohens_d(name),
        }

    def _residuals(self, name: str) -> dict[int, tuple[int, float, float]]:
        """(n, sum, sum of squares) of residuals from the mean of the turn's number, by offset."""
        found: dict[int, tuple[int, float, float]] = {}
        for (offset, turn), m in self.aligned[name].items():
            usual = self.turns[name][turn].mean
            n, total, squares = found.get(offset, (0, 0.0, 0.0))
            found[offset] = (
                n + m.n,
                total + m.total - m.n * usual,
                squares + m.squares - 2 * usual * m.total + m.n * usual * usual,
            )
        return found

    def cohens_d(self, name: str) -> float | None:
        """Residuals from the error on against those before it, over their pooled standard deviation.

        None without two observations on both sides, or without any spread.
        """
        sides = {False: [0, 0.0, 0.0], True: [0, 0.0, 0.0]}
        for offset, values in self._residuals(name).items():
            side = sides[offset >= 0]
            for at, value in enumerate(values):
                side[at] += value
        (n0, s0, q0), (n1, s1, q1) = sides[False], sides[True]
        if n0 < 2 or n1 < 2:
            return None
        within = (q0 - s0 * s0 / n0) + (q1 - s1 * s1 / n1)
        spread = sqrt(max(0.0, within) / (n0 + n1 - 2))
        return (s1 / n1 - s0 / n0) / spread if spread > 1e-12 else None


def first_error(episode: Episode) -> int | None:
    """The first oracle pivot where distances are known, else the first turn that anyone named."""
    if episode.distances_known:
        return first_oracle_pivot(episode)
    named = [p.turn for p in episode.pivots if p.source != "random" and 0 <= p.turn < len(episode.turns)]
    if episode.reflection is not None and episode.reflection.pivot is not None:
        named.append(episode.reflection.pivot)
    return min(named, default=None)
