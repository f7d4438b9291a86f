"""Rollouts: the scheduler of episodes, stop rules, restarts, branches, reflections, and scoring of recorded turns."""

from turnpoint.rollouts.branch import Branch
from turnpoint.rollouts.envs import EnvCopy, EnvPool
from turnpoint.rollouts.play import AfterTurn, Rollouts, Start
from turnpoint.rollouts.reflect import reflect
from turnpoint.rollouts.sampler import Sampler
from turnpoint.rollouts.scorer import Scorer
from turnpoint.rollouts.settings import RolloutSettings
from turnpoint.rollouts.streams import Streams
from turnpoint.rollouts.turns import TurnSampler, WithinTurn

__all__ = [
    "AfterTurn",
    "Branch",
    "EnvCopy",
    "EnvPool",
    "RolloutSettings",
    "Rollouts",
    "Sampler",
    "Scorer",
    "Start",
    "Streams",
    "TurnSampler",
    "WithinTurn",
    "reflect",
]
