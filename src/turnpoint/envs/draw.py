"""Something to try in any environment, drawn without knowing the solution."""

from __future__ import annotations

import random
from typing import Protocol, runtime_checkable

from turnpoint.envs.protocol import Env
from turnpoint.records import Observation


@runtime_checkable
class DrawsActions(Protocol):
    """An environment that knows what to try where its actions cannot be listed."""

    def random_action(self, rng: random.Random) -> str:
        """A plausible action, drawn without knowing the solution."""


def draw_action(env: Env, seen: Observation, rng: random.Random) -> str | None:
    """Any admissible action; one that the environment draws where none are listed; None where it draws none."""
    if seen.admissible:
        return rng.choice(seen.admissible)
    return env.random_action(rng) if isinstance(env, DrawsActions) else None
