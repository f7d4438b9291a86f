"""``lambda: auto``: a stop threshold for each domain, from what its episodes score. Goes beyond the paper."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from turnpoint.config import Settings
from turnpoint.credit import threshold_from_errors, threshold_from_successes
from turnpoint.methods.protocol import Teachers
from turnpoint.methods.scoring import score_missing, turn_means
from turnpoint.methods.tally import Tally
from turnpoint.records import Episode
from turnpoint.teachers.protocol import TeacherError


class CalibrationSettings(Settings):
    """How ``lambda: auto`` finds the threshold of a domain."""

    source: Literal["errors", "successes"] = "successes"
    """``errors``: a quantile of the cumulative score at the first wrong turn of failed episodes, which the
    naming teacher (or a measured oracle distance) finds; ``successes``: the mean turn score of solved episodes."""
    quantile: float = Field(default=0.5, ge=0.0, le=1.0)
    """Of ``errors``: a higher one stops earlier."""
    turns: PositiveFloat = 2.0
    """Of ``successes``: how many ordinary turns' worth of score an episode may spend."""
    episodes: PositiveInt = 32
    """Episodes of the source to gather, in each domain, before early stopping begins there."""


class Calibration:
    """Gathers scores until a domain has enough of them, then fixes its threshold for the rest of the run."""

    def __init__(self, settings: CalibrationSettings, tally: Tally) -> None:
        self.settings = settings
        self.tally = tally
        self.thresholds: dict[str, float] = {}
        """lambda of each calibrated domain."""
        self._gathered: dict[str, list[float]] = {}
        """Sums at errors, or turn scores of successes, by domain."""
        self._episodes: dict[str, int] = {}

    async def learn(self, episodes: Sequence[Episode], teachers: Teachers) -> None:
        """Gather from episodes of domains without a threshold, and set it where there are enough."""
        wanted = [episode for episode in episodes if episode.task.domain not in self.thresholds]
        await score_missing(wanted, teachers, self.tally)
        for episode in wanted:
            if values := await self._evidence(episode, teachers):
                domain = episode.task.domain
                self._gathered.setdefault(domain, []).extend(values)
                self._episodes[domain] = self._episodes.get(domain, 0) + 1
        for domain in [d for d, count in self._episodes.items() if count >= self.settings.episodes]:
            self._fix(domain)
        for domain, value in sorted(self.thresholds.items()):
            self.tally.mean(f"lambda/{domain or 'default'}", value)

    async def _evidence(self, episode: Episode, teachers: Teachers) -> list[float]:
        """What an episode says about its domain: turn scores of a success, or the sum at its first error."""
        reused = len(episode.turns) - len(episode.new_turns)
        scores = turn_means(episode)
        if self.settings.source == "successes":
            return [s for s in scores[reused:] if s is not None] if episode.success else []
        if episode.success is not False:
            return []
        error = await first_error(episode, teachers)
        known = [] if error is None else [s for s in scores[reused : error + 1] if s is not None]
        return [math.fsum(known)] if known else []

    def _fix(self, domain: str) -> None:
        how, values = self.settings, self._gathered[domain]
        try:
            if how.source == "errors":
                found = threshold_from_errors(values, quantile=how.quantile)
            else:
                found = threshold_from_successes([values], turns=how.turns)
        except ValueError:
            self.tally.add("calibration_impossible")  # scores at or above 0: wait for more
            return
        self.thresholds[domain] = found
        del self._gathered[domain], self._episodes[domain]

    def state_dict(self) -> dict[str, Any]:
        """Thresholds, and what was gathered for those to come."""
        return {
            "thresholds": dict(self.thresholds),
            "episodes": dict(self._episodes),
            "gathered": {domain: list(values) for domain, values in self._gathered.items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of ``state_dict``."""
        self.thresholds = dict(state["thresholds"])
        self._episodes = dict(state["episodes"])
        self._gathered = {domain: list(values) for domain, values in state["gathered"].items()}


async def first_error(episode: Episode, teachers: Teachers) -> int | None:
    """0-based first wrong turn: where the measured distance rises, else the earliest the naming teacher names."""
    if episode.distances_known:
        path = [*(turn.distance for turn in episode.turns), episode.final_distance]
        steps = (t for t, (a, b) in enumerate(pairwise(path)) if a is not None and (b is None or b > a))
        return next(steps, None)
    if teachers.naming is None:
        return None
    try:
        report = await teachers.naming.analyse(episode, 1)
    except TeacherError:
        return None
    return min((candidate.turn for candidate in report.candidates), default=None) if report else None
