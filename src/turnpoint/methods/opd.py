"""OPD, on-policy distillation: on every token the student sampled, how much more likely the teacher finds it.

There is no reward. The sampled difference is an *advantage*: as a differentiable loss its expected gradient
is zero and the teacher drops out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field, PositiveFloat

from turnpoint.envs import Capabilities
from turnpoint.methods.parts import Stateless, play_groups
from turnpoint.methods.protocol import MethodSettings, Teachers
from turnpoint.methods.scoring import distillation_rows, score_missing
from turnpoint.methods.tally import Tally
from turnpoint.records import Group, Row, Task
from turnpoint.rollouts import Rollouts, Scorer


class DistillationSettings(MethodSettings):
    """What all methods have that distil from a scoring teacher alone."""

    terms: ClassVar[tuple[str, ...]] = ("on-policy distillation (reverse KL)",)

    group: int = Field(default=1, ge=1)
    """Episodes per task; distillation needs no baseline, so one is enough."""
    coef: PositiveFloat = 1.0
    """Factor of log pi_T - log pi_old."""

    @property
    def asks_scoring(self) -> bool:
        return True

    def check(self, capabilities: Capabilities, teachers: Teachers) -> None:
        teachers.require_scoring(self.kind)


class OPDSettings(DistillationSettings):
    """On-policy distillation of whole episodes."""

    title: ClassVar[str] = "OPD"
    paper: ClassVar[str] = "arXiv 2306.13649"

    kind: Literal["opd"] = "opd"

    def build(self) -> OPD:
        return OPD(self)


class OPD(Stateless):
    """``A_t = coef * (log pi_T - log pi_old)`` over whole episodes."""

    def __init__(self, settings: OPDSettings) -> None:
        self.settings = settings
        self.tally = Tally()

    async def collect(self, tasks: Sequence[Task], rollouts: Rollouts, teachers: Teachers) -> list[Group]:
        """``group`` episodes of every task, to their end."""
        return await play_groups(tasks, rollouts, self.settings.group)

    async def credit(self, groups: Sequence[Group], scorer: Scorer, teachers: Teachers) -> list[Row]:
        """The teacher reads each episode once; one row for each turn."""
        await score_missing([episode for group in groups for episode in group.episodes], teachers, self.tally)
        return distillation_rows(groups, self.tally, coef=self.settings.coef)
