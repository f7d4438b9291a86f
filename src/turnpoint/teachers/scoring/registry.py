"""Kinds of scoring teachers: built-in, from entry point group ``turnpoint.scoring_teachers``, or ``module:attr``."""

from __future__ import annotations

from dataclasses import dataclass

from turnpoint.config import Registry, Settings
from turnpoint.envs.protocol import EnvSuite
from turnpoint.policy.protocol import Policy
from turnpoint.prompts import ChatRenderer, Prompter
from turnpoint.teachers.protocol import ScoringTeacher


@dataclass(frozen=True, slots=True)
class Student:
    """What a scoring teacher is built against: its tokens must be the student's."""

    policy: Policy
    prompter: Prompter
    renderer: ChatRenderer
    suite: EnvSuite


class ScoringTeacherSettings(Settings):
    """Base of every ``scoring`` section; subclasses add fields and build the teacher."""

    kind: str
    """Which scoring teacher."""

    def precheck(self, section: str) -> None:
        """Raise ``ConfigError`` for what is wrong whatever the student is; before one is made."""

    def build(self, student: Student, section: str = "scoring") -> ScoringTeacher:
        """The teacher; ``section`` names its settings in messages.

        Raises ``ConfigError`` where it cannot score this student, its tokenizer above all.
        """
        raise NotImplementedError(f"{type(self).__name__} must define build()")


scoring_registry: Registry[ScoringTeacherSettings] = Registry(
    "turnpoint.scoring_teachers",
    ScoringTeacherSettings,
    {
        "local": "turnpoint.teachers.scoring.local:LocalScoringSettings",
        "http": "turnpoint.teachers.scoring.http:HttpScoringSettings",
        "verl": "turnpoint.teachers.scoring.verl:VerlScoringSettings",
        "privileged": "turnpoint.teachers.scoring.privileged:PrivilegedScoringSettings",
    },
)
