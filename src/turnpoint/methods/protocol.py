"""What a method is: how episodes are collected, and how they become rows with per-token advantages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

from turnpoint.config import ConfigError, Registry, Settings
from turnpoint.envs import Capabilities
from turnpoint.methods.tally import Tally
from turnpoint.policy import PolicyCapabilities
from turnpoint.policy.settings import PolicySettings
from turnpoint.prompts import PromptSettings
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

    def named(self) -> dict[str, NamingTeacher | ScoringTeacher]:
        """All teachers by the config section they come from."""
        found: dict[str, NamingTeacher | ScoringTeacher] = {}
        if self.naming is not None:
            found["teacher"] = self.naming
        for domain, teacher in self.scoring.items():
            found[f"scoring/{domain}" if domain else "scoring"] = teacher
        return found

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
    trains: ClassVar[bool] = True
    """False for methods that only prompt; a run of theirs must have no training steps."""
    defaults: ClassVar[Mapping[str, Any]] = {}
    """Settings of other sections that the method is published with; they lie under the user's own."""

    kind: str
    """Which method."""

    @property
    def asks_scoring(self) -> bool:
        """Whether the method asks scoring teachers; a configured one that nobody asks is an error."""
        return False

    @property
    def asks_naming(self) -> bool:
        """Whether the method asks the naming teacher about every episode, and in every turn of a recovery."""
        return False

    def build(self) -> Method:
        """The method, in its initial state."""
        raise NotImplementedError(f"{type(self).__name__} must define build()")

    def check(self, capabilities: Capabilities, teachers: Teachers) -> None:
        """Raise ``ConfigError`` if this method cannot work with the environment and the teachers."""

    def check_backend(
        self, policy: PolicySettings, capabilities: PolicyCapabilities, prompt: PromptSettings
    ) -> None:
        """Raise ``ConfigError`` if policy, backend or prompt cannot do what this method needs."""


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
        "gspo": "turnpoint.methods.gspo:GSPOSettings",
        "rlsd": "turnpoint.methods.rlsd:RLSDSettings",
        "sdar": "turnpoint.methods.sdar:SDARSettings",
        "sod": "turnpoint.methods.sod:SODSettings",
        "agentopsd": "turnpoint.methods.agentopsd:AgentOPSDSettings",
        "opid": "turnpoint.methods.opid:OPIDSettings",
        "opsd": "turnpoint.methods.opsd:OPSDSettings",
        "pivotrl": "turnpoint.methods.pivotrl:PivotRLSettings",
        "react": "turnpoint.methods.prompting:ReActSettings",
        "reflexion": "turnpoint.methods.prompting:ReflexionSettings",
        "full_retry": "turnpoint.methods.prompting:FullRetrySettings",
    },
)
