"""Rules that any method can use while it collects: when to stop an episode, by the teacher's own log-probs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, Self

from pydantic import PositiveInt, SerializerFunctionWrapHandler, model_serializer, model_validator

from turnpoint.config import ConfigError, Settings
from turnpoint.credit import early_stop_token, early_stop_turn
from turnpoint.methods.calibration import Calibration, CalibrationSettings
from turnpoint.methods.protocol import Teachers
from turnpoint.methods.scoring import TEACHER, score_turns, turn_means
from turnpoint.methods.tally import Tally
from turnpoint.records import Episode, StopReason, Turn
from turnpoint.rollouts import AfterTurn, Rollouts, WithinTurn

_LAMBDA = -2.0


class StopSettings(Settings):
    """Early stop (STRIDE, arXiv 2609.14636): end an episode that has left what the teacher supports."""

    threshold: float | Literal["auto"] = _LAMBDA
    """lambda: stop after the first turn at which the sum of turn scores falls below it (strict); about one
    ordinary turn per 0.7. -inf never stops, ``auto`` calibrates it. Configs may call it ``lambda``, and written ones
    do."""
    unit: Literal["turn", "token"] = "turn"
    """What a score is summed over: the mean teacher log-prob of each new turn, or every new token (single-turn
    tasks); with ``token`` the response is trained up to the token that crosses the threshold."""
    piece: PositiveInt = 64
    """With ``unit: token``: tokens sampled between two looks at the teacher, so that a hopeless response is not
    sampled to its end."""
    calibration: CalibrationSettings = CalibrationSettings()
    """Read with ``auto`` only."""

    @model_validator(mode="before")
    @classmethod
    def _lambda(cls, data: Any) -> Any:
        if isinstance(data, dict) and "lambda" in data:
            if data.get("threshold", _LAMBDA) not in (_LAMBDA, data["lambda"]):
                raise ValueError("lambda and threshold are two names of one setting; give one of them")
            data = {**data, "threshold": data["lambda"]}
            del data["lambda"]
        return data

    @model_serializer(mode="wrap")
    def _as_lambda(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Written configs say ``lambda``, so that overrides of them can; JSON has no infinity, text has."""
        data: dict[str, Any] = dump(self)
        del data["threshold"]
        return {"lambda": "-inf" if self.threshold == -math.inf else self.threshold, **data}

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


def whole_turns(stop: StopSettings | None) -> StopSettings | None:
    """``stop`` for methods that credit whole turns. Raises ``ValueError`` if it makes no sense there."""
    if stop is not None and stop.unit == "token":
        raise ValueError(
            "unit token cuts turns short, but this method credits whole turns; set stop.unit: turn"
        )
    if stop is not None and stop.threshold == -math.inf:
        raise ValueError("lambda is -inf, which never stops; set a number below 0, or stop: null")
    return stop


class StopRule:
    """Asks the scoring teacher after every turn; ends an episode once its new turns cost more than lambda."""

    def __init__(self, settings: StopSettings | None, tally: Tally) -> None:
        """``None``: nothing is ever stopped, and no teacher is asked."""
        self.settings = settings or StopSettings(threshold=-math.inf)
        self.tally = tally
        self._auto = (
            Calibration(self.settings.calibration, tally) if self.settings.threshold == "auto" else None
        )

    def threshold(self, domain: str) -> float:
        """lambda of a domain; -inf (never stop) until it is calibrated."""
        if self._auto is not None:
            return self._auto.thresholds.get(domain, -math.inf)
        return float(self.settings.threshold)

    def watch(self, rollouts: Rollouts, teachers: Teachers) -> AfterTurn | None:
        """The rule in the form that ``Rollouts.play`` takes; None if nothing can stop."""
        if self.settings.threshold == -math.inf:
            return None

        async def after_turn(episode: Episode) -> StopReason | None:
            limit = self.threshold(episode.task.domain)
            if limit == -math.inf:
                return None  # scored later, the whole episode at once
            await self._score(episode, episode.turns[-1], rollouts, teachers)
            return StopReason.OUT_OF_SUPPORT if self.crossed(episode, limit) else None

        return after_turn

    def watch_within(self, rollouts: Rollouts, teachers: Teachers) -> WithinTurn | None:
        """With ``unit: token``: the rule in the form that looks at turns while they are sampled; else None."""
        if self.settings.unit != "token" or self.settings.threshold == -math.inf:
            return None

        async def look(episode: Episode, turn: Turn) -> StopReason | None:
            await self._score(episode, turn, rollouts, teachers)
            so_far = [*_new_tokens(episode), *turn.scores.get(TEACHER, ())]
            kept = early_stop_token(so_far, self.threshold(episode.task.domain))
            return None if kept is None else StopReason.OUT_OF_SUPPORT

        return WithinTurn(self.settings.piece, look)

    async def _score(self, episode: Episode, turn: Turn, rollouts: Rollouts, teachers: Teachers) -> None:
        teacher = teachers.scoring_for(episode.task)
        with rollouts.sampler.waiting(teacher.remote):
            await score_turns(episode, [turn], teacher, self.tally)

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
        """With ``auto``: calibrate on the episodes of a step, all of which are scored for it."""
        if self._auto is not None:
            await self._auto.learn(episodes, teachers)

    def state_dict(self) -> dict[str, Any]:
        """State of the calibration; nothing for a fixed threshold."""
        return {} if self._auto is None else self._auto.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of ``state_dict``; a calibration begins anew if none was saved."""
        if self._auto is not None and state:
            self._auto.load_state_dict(state)


class Stopping:
    """For methods that carry nothing from step to step but what their stop rule learned."""

    stop: StopRule

    def state_dict(self) -> dict[str, Any]:
        """State of the stop rule, if it has any."""
        state = self.stop.state_dict()
        return {"stop": state} if state else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of ``state_dict``."""
        if "stop" in state:
            self.stop.load_state_dict(state["stop"])


def _new_tokens(episode: Episode) -> list[float]:
    return [value for turn in episode.new_turns for value in turn.scores.get(TEACHER, ())]
