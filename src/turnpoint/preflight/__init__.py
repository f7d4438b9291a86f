"""Checks of a whole set-up before any training: the user's model, template, teacher and environment."""

from turnpoint.preflight.report import Doubt, Fault, Finding, NotApplicable, PreflightReport

__all__ = ["Doubt", "Fault", "Finding", "NotApplicable", "PreflightReport"]
