"""What a method is: how episodes are collected, and how they become rows with per-token advantages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

from turnpoint.config import ConfigError, Registry, Settings
from turnpoint.envs import Capabilities
from turnpoint.methods.tally import Tally
from turnpoint.records import Episode, Group, Row, Task
from turnpoint.rollouts import Rollouts, Scorer
from turnpoint.teachers.protocol import NamingTeacher, ScoringTeacher


@dataclass(slots=True)
class Teachers:
    """The teachers of a run."""

    naming: NamingTeacher | None = None
    """Names pivotal turns and recovery actions."""
    scoring: Mapping[str, ScoringTeacher] = field(default_factory=dict)
    """Gives token log-probs, by task domain; ``""`` is the teacher of all other domains."""

    def require_naming(self, method: str) -> NamingTeacher:
        """The naming teacher, or an error that says which setting is missing."""
        if self.naming is None:
            raise ConfigError(
                f"method '{method}' needs a teacher that names actions; set teacher.kind to oracle, http or self"
            )
        return self.naming

    def require_scoring(self, method: str) -> None:
        """Raise ``ConfigError``, saying which setting is missing, unless some teacher scores tokens."""
        if not self.scoring:
            raise ConfigError(
                f"method '{method}' needs a teacher that scores tokens; set scoring.kind to local, http or privileged"
            )

    def scoring_for(self, task: Task) -> ScoringTeacher:
        """The teacher of the task's domain, or else the one for all other domains."""
        teacher = self.scoring.get(task.domain, self.scoring.get(""))
        if teacher is None:
            known = ", ".join(sorted(self.scoring)) or "none"
            raise ConfigError(
                f"no scoring teacher for task {task.id} of domain '{task.domain}' (there are: {known}); add "
                f"scoring.{task.domain or 'default'}, or one for all other domains as scoring.default"
            )
        return teacher


class Method(Protocol):
    """One training method. The trainer calls ``collect`` then ``credit`` in every step and knows nothing else."""

    tally: Tally
    """What happened in the current step; the trainer takes it into the metrics."""

    async def collect(self, tasks: Sequence[Task], rollouts: Rollouts, teachers: Teachers) -> list[Group]:
        """Play episodes of every task; reads like the paper's algorithm."""

    async def credit(self, groups: Sequence[Group], scorer: Scorer, teachers: Teachers) -> list[Row]:
        """Turn episodes into rows with per-token advantages."""

    def state_dict(self) -> dict[str, Any]:
        """What must survive a restart (prefix buffer, curriculum, controllers), as plain JSON."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of ``state_dict``."""


@runtime_checkable
class PlaysAttempts(Protocol):
    """Optional part of a method: its own way to try a task several times, which evaluation then follows."""

    async def attempts(self, task: Task, index: int, rollouts: Rollouts, count: int) -> list[Episode]:
        """At most ``count`` attempts in order, up to the first success; leaves the method's tally alone.

        The first one is ``rollouts.play(task, index)``, so that methods are compared on equal first attempts.
        """


class MethodSettings(Settings):
    """Base of every ``method`` section."""

    title: ClassVar[str] = ""
    paper: ClassVar[str] = ""
    """Where the method was published (arXiv number)."""
    terms: ClassVar[tuple[str, ...]] = ()
    """Parts of the advantage, for the list of methods."""

    kind: str
    """Which method."""

    def build(self) -> Method:
        """The method, in its initial state."""
        raise NotImplementedError(f"{type(self).__name__} must define build()")

    def check(self, capabilities: Capabilities, teachers: Teachers) -> None:
        """Raise ``ConfigError`` if this method cannot work with the environment and the teachers."""


method_registry: Registry[MethodSettings] = Registry(
    "turnpoint.methods",
    MethodSettings,
    {
        "grpo": "turnpoint.methods.grpo:GRPOSettings",
        "gigpo": "turnpoint.methods.gigpo:GiGPOSettings",
        "pivoarl": "turnpoint.methods.pivoarl:PivoARLSettings",
        "metarl": "turnpoint.methods.metarl:MetaRLSettings",
        "pivotopd": "turnpoint.methods.pivotopd:PivotOPDSettings",
        "opd": "turnpoint.methods.opd:OPDSettings",
        "fast_opd": "turnpoint.methods.fast_opd:FastOPDSettings",
        "tcod": "turnpoint.methods.tcod:TCODSettings",
        "turnopd": "turnpoint.methods.turnopd:TurnOPDSettings",
        "stride": "turnpoint.methods.stride:StrideSettings",
    },
)
