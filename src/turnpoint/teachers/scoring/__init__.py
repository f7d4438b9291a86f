"""Scoring teachers: how likely they find the tokens that the student sampled."""

from turnpoint.teachers.scoring.registry import ScoringTeacherSettings, Student, scoring_registry

__all__ = ["ScoringTeacherSettings", "Student", "scoring_registry"]
