"""The weight of the recovery term, held at one strength however many tokens recovery has. Goes beyond the papers."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, PositiveFloat

from turnpoint.config import ConfigError, Settings
from turnpoint.credit import recovery_weight
from turnpoint.methods.tally import Tally
from turnpoint.policy import PolicyCapabilities
from turnpoint.policy.settings import PolicySettings


class RecoveryRatioSettings(Settings):
    """Replace ``w_rec`` in every step by what keeps the gradient weight of recovery at a target."""

    ratio: PositiveFloat | Literal["first"] = "first"
    """Gradient weight (sum over tokens of their weights) of the recovery term over that of the preventive one;
    ``first`` = what it is in the first step that has both, under ``w_rec`` as set."""
    limit: float = Field(default=10.0, ge=1.0)
    """The weight stays between ``w_rec / limit`` and ``w_rec * limit``."""

    def check_backend(self, policy: PolicySettings, capabilities: PolicyCapabilities) -> None:
        """Raise ``ConfigError`` where tokens do not all count alike in the loss."""
        aggregation = getattr(getattr(policy, "loss", None), "aggregation", "token-mean")
        if aggregation != "token-mean":
            raise ConfigError(
                "method.recovery_ratio weighs terms by their tokens, but with policy.loss.aggregation "
                f"{aggregation} tokens of short rows count for more; set it to token-mean"
            )


class RecoveryRatio:
    """Finds the weight of each step; remembers the target and the last weight."""

    def __init__(self, settings: RecoveryRatioSettings, w_rec: float, tally: Tally) -> None:
        self.settings = settings
        self.w_rec = w_rec
        self.tally = tally
        self._ratio = None if settings.ratio == "first" else settings.ratio
        self._last = w_rec

    def weight(self, preventive: float, recovery_tokens: float) -> float:
        """The weight of the step's recovery term.

        Args:
            preventive: Gradient weight of the preventive term, sum over its tokens of their weights.
            recovery_tokens: Sum over recovery tokens of the trust in their turn (their number, without such options).

        A step that lacks one of the two keeps the last weight.
        """
        if preventive <= 0 or recovery_tokens <= 0:
            return self._last
        if self._ratio is None:
            self._ratio = self.w_rec * recovery_tokens / preventive
        self._last = recovery_weight(
            preventive, recovery_tokens, self._ratio, w_rec=self.w_rec, limit=self.settings.limit
        )
        self.tally.mean("w_rec", self._last)
        self.tally.mean("recovery_ratio", self._last * recovery_tokens / preventive)
        self.tally.mean("recovery_ratio_target", self._ratio)
        return self._last

    def state_dict(self) -> dict[str, Any]:
        """The target found and the last weight."""
        return {"ratio": self._ratio, "last": self._last}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of ``state_dict``; a target in the settings stays."""
        self._last = float(state["last"])
        if self.settings.ratio == "first":
            self._ratio = state["ratio"]
