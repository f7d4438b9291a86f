"""Methods: how episodes are collected and how they become rows; one paper, one file."""

from turnpoint.methods.protocol import Method, MethodSettings, PlaysAttempts, Teachers, method_registry
from turnpoint.methods.tally import Tally

__all__ = ["Method", "MethodSettings", "PlaysAttempts", "Tally", "Teachers", "method_registry"]
