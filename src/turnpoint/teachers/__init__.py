"""Teachers: who names pivotal turns and better actions, and who scores tokens."""

from turnpoint.teachers.protocol import (
    Complete,
    NamingTeacher,
    ScoringTeacher,
    Situation,
    TeacherError,
    TeacherFailure,
    TurnScore,
)
from turnpoint.teachers.registry import TeacherSettings, teacher_registry

__all__ = [
    "Complete",
    "NamingTeacher",
    "ScoringTeacher",
    "Situation",
    "TeacherError",
    "TeacherFailure",
    "TeacherSettings",
    "TurnScore",
    "teacher_registry",
]
