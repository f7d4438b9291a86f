"""Rollouts: the scheduler of episodes, stop rules, restarts, branches, reflections, and scoring of recorded turns."""

from turnpoint.rollouts.branch import Branch
from turnpoint.rollouts.play import AfterTurn, Rollouts, Start, WithinTurn
from turnpoint.rollouts.reflect import reflect
from turnpoint.rollouts.sampler import Sampler
from turnpoint.rollouts.scorer import Scorer
from turnpoint.rollouts.settings import RolloutSettings
from turnpoint.rollouts.streams import Streams

__all__ = [
    "AfterTurn",
    "Branch",
    "RolloutSettings",
    "Rollouts",
    "Sampler",
    "Scorer",
    "Start",
    "Streams",
    "WithinTurn",
    "reflect",
]
