"""Rules that any method can use while it collects: when to stop an episode, by the teacher's own log-probs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal, Self

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from turnpoint.config import ConfigError, Settings
from turnpoint.credit import (
    early_stop_token,
    early_stop_turn,
    threshold_from_errors,
    threshold_from_successes,
)
from turnpoint.methods.protocol import Teachers
from turnpoint.methods.scoring import TEACHER, score_turns, turn_means
from turnpoint.methods.tally import Tally
from turnpoint.records import Episode, StopReason
from turnpoint.rollouts import AfterTurn, Rollouts
from turnpoint.teachers.protocol import TeacherError


class CalibrationSettings(Settings):
    """How ``lambda: auto`` finds the threshold of a domain; goes beyond the paper."""

    source: Literal["errors", "successes"] = "successes"
    """``errors``: a quantile of the cumulative score at the first wrong turn of failed episodes, which the
    naming teacher (or a measured oracle distance) finds; ``successes``: the mean turn score of solved episodes."""
    quantile: float = Field(default=0.5, ge=0.0, le=1.0)
    """Of ``errors``: a higher one stops earlier."""
    turns: PositiveFloat = 2.0
    """Of ``successes``: how many ordinary turns' worth of score an episode may spend."""
    episodes: PositiveInt = 32
    """Episodes of the source to gather, in each domain, before early stopping begins there."""


class StopSettings(Settings):
    """Early stop (STRIDE, arXiv 2609.14636): end an episode that has left what the teacher supports."""

    threshold: float | Literal["auto"] = -2.0
    """lambda: stop after the first turn at which the sum of turn scores falls below it (strict); about one
    ordinary turn per 0.7. -inf never stops, ``auto`` calibrates it. May be written ``lambda``."""
    unit: Literal["turn", "token"] = "turn"
    """What a score is summed over: the mean teacher log-prob of each new turn, or every new token (single-turn
    tasks); with ``token`` the response is trained up to the token that crosses the threshold."""
    calibration: CalibrationSettings = CalibrationSettings()
    """Read with ``auto`` only."""

    @model_validator(mode="before")
    @classmethod
    def _lambda(cls, data: Any) -> Any:
        if isinstance(data, dict) and "lambda" in data:
            if "threshold" in data:
                raise ValueError("lambda and threshold are two names of one setting; give one of them")
            data = {**data, "threshold": data["lambda"]}
            del data["lambda"]
        return data

    @model_validator(mode="after")
    def _below_zero(self) -> Self:
        if self.threshold != "auto" and not self.threshold < 0:
            raise ValueError(
                f"lambda is {self.threshold}; a sum of log-probs starts at 0, so every episode would stop at once: "
                "set a number below 0 (about -0.7 per turn to allow), -inf to switch early stopping off, or auto"
            )
        if self.threshold == "auto" and self.unit == "token":
            raise ValueError("lambda auto is calibrated on turns; set a number with unit: token")
        return self

    def check(self, method: str, teachers: Teachers) -> None:
        """Raise ``ConfigError`` if the run has no teacher that this rule can ask."""
        teachers.require_scoring(method)
        if self.threshold == "auto" and self.calibration.source == "errors" and teachers.naming is None:
            raise ConfigError(
                "method.stop.calibration.source is errors, which needs a teacher that names wrong turns; set "
                "teacher.kind to oracle, http or self, or the source to successes"
            )


class StopRule:
    """Asks the scoring teacher after every turn; ends an episode once its new turns cost more than lambda."""

    def __init__(self, settings: StopSettings, tally: Tally) -> None:
        self.settings = settings
        self.tally = tally
        self._gathered: dict[str, list[float]] = {}
        """With ``auto``: sums at errors, or turn scores of successes, by domain."""
        self._episodes: dict[str, int] = {}
        self._thresholds: dict[str, float] = {}

    def threshold(self, domain: str) -> float:
        """lambda of a domain; -inf (never stop) until it is calibrated."""
        fixed = self.settings.threshold
        return self._thresholds.get(domain, -math.inf) if fixed == "auto" else float(fixed)

    def watch(self, rollouts: Rollouts, teachers: Teachers) -> AfterTurn | None:
        """The rule in the form that ``Rollouts.play`` takes; None if nothing can stop."""
        if self.settings.threshold == -math.inf:
            return None

        async def after_turn(episode: Episode) -> StopReason | None:
            limit = self.threshold(episode.task.domain)
            if limit == -math.inf:
                return None  # scored later, the whole episode at once
            teacher, turn = teachers.scoring_for(episode.task), episode.turns[-1]
            rollouts.sampler.busy += teacher.remote  # in lockstep, results must not depend on its speed
            try:
                await score_turns(episode, [turn] if turn.response_ids else [], teacher, self.tally)
            finally:
                rollouts.sampler.busy -= teacher.remote
            return StopReason.OUT_OF_SUPPORT if self.crossed(episode, limit) else None

        return after_turn

    def crossed(self, episode: Episode, limit: float) -> bool:
        """Whether the new turns so far sum to less than ``limit``; reused turns are never counted."""
        if self.settings.unit == "token":
            return early_stop_token(_new_tokens(episode), limit) is not None
        reused = len(episode.turns) - len(episode.new_turns)
        return early_stop_turn(turn_means(episode), limit, reused) is not None

    def token_limits(self, episode: Episode) -> dict[int, float]:
        """With ``unit: token``: trained tokens of the turns from the crossing on; empty if nothing is cut."""
        if self.settings.unit == "turn":
            return {}
        left = early_stop_token(_new_tokens(episode), self.threshold(episode.task.domain))
        limits: dict[int, float] = {}
        for turn in episode.new_turns if left is not None else ():
            assert left is not None
            scored = len(turn.scores.get(TEACHER, ()))
            if scored > left:
                limits[turn.index] = left
            left = max(0, left - scored)
        return limits

    async def learn(self, episodes: Sequence[Episode], teachers: Teachers) -> None:
        """With ``auto``: gather scored episodes of domains without a threshold, and set it when there are enough."""
        if self.settings.threshold != "auto":
            return
        for episode in episodes:
            domain = episode.task.domain
            if domain not in self._thresholds and (values := await self._evidence(episode, teachers)):
                self._gathered.setdefault(domain, []).extend(values)
                self._episodes[domain] = self._episodes.get(domain, 0) + 1
        for domain, count in self._episodes.items():
            if domain not in self._thresholds and count >= self.settings.calibration.episodes:
                self._calibrate(domain)
        for domain, value in sorted(self._thresholds.items()):
            self.tally.mean(f"lambda/{domain or 'default'}", value)

    async def _evidence(self, episode: Episode, teachers: Teachers) -> list[float]:
        """What an episode says about its domain: turn scores of a success, or the sum at its first error."""
        reused = len(episode.turns) - len(episode.new_turns)
        scores = turn_means(episode)
        if self.settings.calibration.source == "successes":
            return [s for s in scores[reused:] if s is not None] if episode.success else []
        if episode.success is not False:
            return []
        error = await first_error(episode, teachers)
        known = [] if error is None else [s for s in scores[reused : error + 1] if s is not None]
        return [math.fsum(known)] if known else []

    def _calibrate(self, domain: str) -> None:
        how, values = self.settings.calibration, self._gathered[domain]
        try:
            if how.source == "errors":
                found = threshold_from_errors(values, quantile=how.quantile)
            else:
                found = threshold_from_successes([values], turns=how.turns)
        except ValueError:
            self.tally.add("calibration_impossible")  # scores at or above 0: wait for more
            return
        self._thresholds[domain] = found
        del self._gathered[domain]

    def state_dict(self) -> dict[str, Any]:
        """Calibrated thresholds and what was gathered for those to come."""
        return {
            "thresholds": dict(self._thresholds),
            "episodes": dict(self._episodes),
            "gathered": {domain: list(values) for domain, values in self._gathered.items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of ``state_dict``."""
        self._thresholds = dict(state["thresholds"])
        self._episodes = dict(state["episodes"])
        self._gathered = {domain: list(values) for domain, values in state["gathered"].items()}


def _new_tokens(episode: Episode) -> list[float]:
    return [value for turn in episode.new_turns for value in turn.scores.get(TEACHER, ())]


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
