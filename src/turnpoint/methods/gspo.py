"""GSPO (arXiv 2507.18071): GRPO's advantages with one importance ratio for a whole row.

s = exp(mean_t(log pi_theta - log pi_old)) is clipped to a far narrower range than token ratios, and rows are averaged,
not tokens. All of that is the policy loss; collection and advantages are GRPO's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from turnpoint.config import ConfigError
from turnpoint.methods.grpo import GRPO, GRPOSettings
from turnpoint.methods.outcome import OutcomeSettings
from turnpoint.policy import PolicyCapabilities
from turnpoint.policy.settings import LossSettings, PolicySettings
from turnpoint.prompts import PromptSettings


class GSPOSettings(OutcomeSettings):
    """Group sequence policy optimisation."""

    title: ClassVar[str] = "GSPO"
    paper: ClassVar[str] = "arXiv 2507.18071"
    terms: ClassVar[tuple[str, ...]] = ("group-relative outcome", "row-level importance ratio")
    defaults: ClassVar[Mapping[str, Any]] = {
        "policy": {
            "loss": {
                "ratio": "sequence",
                "aggregation": "seq-mean-token-mean",
                "clip": 3e-4,
                "clip_high": 4e-4,
            }
        }
    }

    kind: Literal["gspo"] = "gspo"

    def check_backend(
        self, policy: PolicySettings, capabilities: PolicyCapabilities, prompt: PromptSettings
    ) -> None:
        loss = getattr(policy, "loss", None)
        if not isinstance(loss, LossSettings) or loss.ratio != "sequence":
            given = f"'{loss.ratio}'" if isinstance(loss, LossSettings) else "not offered by this policy.kind"
            raise ConfigError(
                f"method gspo is GRPO with a ratio per row, and policy.loss.ratio is {given}; set it to sequence, or "
                "method.kind to grpo"
            )

    def build(self) -> GRPO:
        return GRPO(GRPOSettings(**self.model_dump(exclude={"kind"})))
