"""Settings of the group-relative outcome, which most methods start from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field, NonNegativeFloat

from turnpoint.methods.parts import outcome_rows
from turnpoint.methods.protocol import MethodSettings
from turnpoint.methods.tally import Tally
from turnpoint.records import Group, Row, Turn


class OutcomeSettings(MethodSettings):
    """What methods have that start from the group-relative outcome (GRPO)."""

    group: int = Field(default=8, ge=1)
    """Episodes per task; a group of one gives no signal."""
    normalise: Literal["mean", "mean_std"] = "mean_std"
    """Subtract the group's mean, or also divide by its standard deviation."""
    baseline: Literal["episodes", "rows"] = "episodes"
    """Count every episode once in the baseline, or once for each of its turns."""
    invalid_penalty: NonNegativeFloat = 0.0
    """Subtracted from the score of turns without a parsable action, before normalisation."""

    def outcome_rows(
        self, groups: Sequence[Group], tally: Tally, *, keep_unjudged: bool = False
    ) -> list[tuple[Turn, Row]]:
        """Rows of all turns with GRPO's advantage; see ``parts.outcome_rows``."""
        return outcome_rows(
            groups,
            tally,
            normalise=self.normalise,
            baseline=self.baseline,
            invalid_penalty=self.invalid_penalty,
            keep_unjudged=keep_unjudged,
        )
