"""What a method is: how episodes are collected, and how they become rows with per-token advantages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from turnpoint.config import ConfigError, Registry, Settings
from turnpoint.envs import Capabilities
from turnpoint.methods.tally import Tally
from turnpoint.records import Group, Row, Task
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
        "pivotopd": "turnpoint.methods.pivotopd:PivotOPDSettings",
    },
)
