"""Options beyond PivotOPD's paper: how far the teacher is trusted, how strongly and how deep recovery is trained.

All are off by default; each has a module of its own. What they learn is part of the method's state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from pydantic import model_validator

from turnpoint.envs import Capabilities
from turnpoint.methods.consistency import ConsistencySettings
from turnpoint.methods.counsel import Counsel
from turnpoint.methods.outcome import OutcomeSettings
from turnpoint.methods.protocol import Teachers
from turnpoint.methods.recovery_depth import AdaptiveTurns, AdaptiveTurnsSettings
from turnpoint.methods.recovery_ratio import RecoveryRatio, RecoveryRatioSettings
from turnpoint.methods.reliability import Reliability, ReliabilitySettings
from turnpoint.methods.tally import Tally
from turnpoint.methods.verification import VerifySettings
from turnpoint.records import Episode, Group
from turnpoint.rollouts import Rollouts
from turnpoint.teachers.protocol import NamingTeacher, teacher_label


class BeyondSettings(OutcomeSettings):
    """The options themselves."""

    consistency: ConsistencySettings | None = None
    """Ask the naming teacher several times and weigh turns by its agreement with itself; null = once."""
    verify: VerifySettings | None = None
    """Try named actions in a forked environment before they are distilled; null = taken at their word."""
    reliability: ReliabilitySettings | None = None
    """Measure how often named turns and actions are right, by the environment's oracle; null = not measured."""
    recovery_ratio: RecoveryRatioSettings | None = None
    """Hold the strength of the recovery term whatever its number of tokens; null = ``w_rec`` as it is."""
    adaptive_turns: AdaptiveTurnsSettings | None = None
    """Choose ``recovery_turns`` by how many turns recoveries take; null = it stays."""

    def check_beyond(self, capabilities: Capabilities, teachers: Teachers) -> None:
        """Raise ``ConfigError`` if an option cannot work with the environment or the teacher."""
        if self.consistency is not None:
            self.consistency.check(teachers.naming)
        for option in (self.verify, self.reliability, self.adaptive_turns):
            if option is not None:
                option.check(capabilities)


class BeyondPivotOPDSettings(BeyondSettings):
    """The options of a method with recovery branches, checked against its other settings."""

    @model_validator(mode="after")
    def _options_apply(self) -> Self:
        weights = {name: getattr(self, name, 0) for name in ("w_prev", "w_rec", "recovery_turns", "ablation")}
        if weights["ablation"] == "preventive_only":
            weights["recovery_turns"] = 0
        if weights["ablation"] == "recovery_only":
            weights["w_prev"] = 0
        recovers = weights["w_rec"] > 0 and weights["recovery_turns"] > 0
        if self.recovery_ratio is not None and not (recovers and weights["w_prev"] > 0):
            raise ValueError(
                "recovery_ratio weighs the recovery term against the preventive one, but one of them is off; set "
                "w_prev, w_rec and recovery_turns above 0, or recovery_ratio to null"
            )
        if self.adaptive_turns is None:
            return self
        turns, least, most = weights["recovery_turns"], self.adaptive_turns.least, self.adaptive_turns.most
        if not recovers or not least <= turns <= most:
            raise ValueError(
                f"adaptive_turns starts at recovery_turns ({turns}), which must lie between its least ({least}) and "
                f"most ({most}), with w_rec above 0; change them, or set adaptive_turns to null"
            )
        return self


class Beyond:
    """The options of one run, and what they have learned."""

    def __init__(self, settings: BeyondSettings, *, recovery_turns: int, w_rec: float, tally: Tally) -> None:
        self.settings = settings
        self.tally = tally
        self._turns, self._w_rec = recovery_turns, w_rec
        s = settings
        self.reliability = None if s.reliability is None else Reliability(s.reliability, tally)
        self.ratio = None if s.recovery_ratio is None else RecoveryRatio(s.recovery_ratio, w_rec, tally)
        self.depth = (
            None if s.adaptive_turns is None else AdaptiveTurns(s.adaptive_turns, recovery_turns, tally)
        )

    @property
    def recovery_turns(self) -> int:
        """K of the step in progress."""
        return self._turns if self.depth is None else self.depth.turns

    def counsel(self, teacher: NamingTeacher, rollouts: Rollouts) -> Counsel:
        """The teacher as it is asked in this step."""
        return Counsel(
            teacher,
            rollouts,
            self.tally,
            consistency=self.settings.consistency,
            verify=self.settings.verify,
        )

    async def learn(
        self, groups: Sequence[Group], branches: Sequence[Episode], teacher: NamingTeacher, rollouts: Rollouts
    ) -> None:
        """Take in what a step has shown, and put trust that follows from it on record."""
        if self.reliability is not None:
            await self.reliability.judge(groups, teacher_label(teacher), rollouts)
        if self.depth is not None:
            self.depth.learn(branches)

    def recovery_weight(self, preventive: float, recovery_tokens: float) -> float:
        """``w_rec`` of the step; see ``RecoveryRatio.weight``."""
        return self._w_rec if self.ratio is None else self.ratio.weight(preventive, recovery_tokens)

    def state_dict(self) -> dict[str, Any]:
        """State of the options that have one."""
        parts = {"reliability": self.reliability, "recovery_ratio": self.ratio, "adaptive_turns": self.depth}
        return {name: part.state_dict() for name, part in parts.items() if part is not None}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of ``state_dict``; an option that was off before begins anew."""
        for name, part in (
            ("reliability", self.reliability),
            ("recovery_ratio", self.ratio),
            ("adaptive_turns", self.depth),
        ):
            if part is not None and name in state:
                part.load_state_dict(state[name])
