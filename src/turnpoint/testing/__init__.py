"""Stand-ins for tests, of this package and of others: a tiny environment and a scripted endpoint."""

from turnpoint.testing.episodes import play_actions, play_oracle
from turnpoint.testing.fake_endpoint import FakeEndpoint, Request, Scripted
from turnpoint.testing.toy_env import (
    ToyEnv,
    ToySettings,
    ToySuite,
    crashing_suite,
    hanging_suite,
    replay_suite,
    stochastic_suite,
    toy_suite,
)
from turnpoint.testing.toy_game import ToyState

__all__ = [
    "FakeEndpoint",
    "Request",
    "Scripted",
    "ToyEnv",
    "ToySettings",
    "ToyState",
    "ToySuite",
    "crashing_suite",
    "hanging_suite",
    "play_actions",
    "play_oracle",
    "replay_suite",
    "stochastic_suite",
    "toy_suite",
]
