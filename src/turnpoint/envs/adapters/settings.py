"""What ``env`` sections of all adapters have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import NonNegativeInt, PositiveFloat, PositiveInt

from turnpoint.envs.adapters.game import Game
from turnpoint.envs.protocol import Capabilities
from turnpoint.envs.registry import EnvSettings

if TYPE_CHECKING:
    from turnpoint.envs.adapters.suite import AdapterSuite

REPLAYED = Capabilities(deterministic=True, snapshots=False, oracle=False, admissible=False)
"""Seeded games that repeat themselves: states come back by verified replay."""


class AdapterSettings(EnvSettings):
    """Tasks, limits and processes of an environment of another library."""

    capabilities: ClassVar[Capabilities] = REPLAYED
    distributions: ClassVar[tuple[str, ...]] = ()
    """Packages whose versions stand in the run header, by their names on the index."""

    train_tasks: PositiveInt = 1000
    """Tasks of the split ``train``; each has a seed of its own, from 0 on."""
    valid_tasks: PositiveInt = 200
    """Tasks of the split ``valid``; their seeds are never in ``train``."""
    max_turns: PositiveInt = 30
    """Turn budget of an episode."""
    instructions: str = ""
    """Rules for the prompt; empty = what the adapter knows of them."""
    deterministic: bool = True
    """The same task and actions show the same; without it episodes are not restored. Replays are verified anyway."""
    processes: NonNegativeInt = 1
    """Processes that play, shared by all copies; 0 = in this one, where a game that crashes takes the run with it."""
    call_seconds: PositiveFloat = 60.0
    """Longest call; a process that takes longer is ended and replaced."""
    process_mb: PositiveInt = 4096
    """Memory in use above which a process is replaced after its call; episodes are brought back by replay."""
    max_characters: PositiveInt = 200_000
    """Longest observation; a longer one ends the episode with an error."""
    vocabulary_walks: NonNegativeInt = 0
    """Random episodes whose words are taken for the whole language, which small built-in agents need; words that none
    of them showed are unknown to such an agent. 0 = the language is open."""

    def game(self) -> Game:
        """One playable copy; called in the process that plays."""
        raise NotImplementedError(f"{type(self).__name__} must define game()")

    def build(self) -> AdapterSuite:
        """The suite; raises ``EnvDataError`` if the library is missing or cannot do what is set."""
        raise NotImplementedError(f"{type(self).__name__} must define build()")
