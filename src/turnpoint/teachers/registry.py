"""Kinds of naming teachers: built-in, from entry point group ``turnpoint.teachers``, or ``module:attr``."""

from __future__ import annotations

from collections.abc import Iterable

from turnpoint.config import Registry, Settings
from turnpoint.envs.protocol import EnvSuite
from turnpoint.teachers.protocol import Complete, NamingTeacher


class TeacherSettings(Settings):
    """Base of every ``teacher`` section; subclasses add fields and build the teacher."""

    kind: str
    """Which teacher."""

    def build(self, suite: EnvSuite, complete: Complete | None = None) -> NamingTeacher:
        """The teacher for the tasks of ``suite``; ``complete`` calls the student (the self-teacher needs it).

        Raises ``ConfigError`` where it cannot work with this environment.
        """
        raise NotImplementedError(f"{type(self).__name__} must define build()")

    def vocabulary_texts(self) -> Iterable[str]:
        """Strings that hold every word this teacher can add to a prompt beyond what the environment shows.

        Empty for teachers whose language is open; models with a closed vocabulary cannot read their lessons.
        """
        return ()


teacher_registry: Registry[TeacherSettings] = Registry(
    "turnpoint.teachers",
    TeacherSettings,
    {
        "oracle": "turnpoint.teachers.oracle:OracleTeacherSettings",
        "http": "turnpoint.teachers.http:HttpTeacherSettings",
        "self": "turnpoint.teachers.self_teacher:SelfTeacherSettings",
    },
)
