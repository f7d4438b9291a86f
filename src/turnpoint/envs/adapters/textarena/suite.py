"""A game of TextArena with tasks: one for each seed."""

from __future__ import annotations

from turnpoint.envs.adapters.randomness import OwnStreams
from turnpoint.envs.adapters.suite import AdapterSuite
from turnpoint.envs.adapters.textarena.game import ArenaGame
from turnpoint.envs.adapters.textarena.rivals import KNOWN
from turnpoint.envs.adapters.textarena.settings import TextArenaSettings


def build_suite(settings: TextArenaSettings) -> AdapterSuite:
    """The suite; the game is made once, to know that it can be played. Raises ``EnvDataError`` if not."""
    with OwnStreams(settings.call_seconds).used():
        players = ArenaGame(settings).players
    name = settings.game_id.partition("-v")[0]
    against = " against another player" if players == 2 else ""
    marks = " The move stands in square brackets." if settings.brackets else ""
    return AdapterSuite(
        settings,
        settings.capabilities,
        instructions=f"You play {name}{against}. Reply with one move.{marks}",
        instruction=f"play {name}{against}.",
        actions=KNOWN.get(name, tuple(f"[{number}]" for number in range(1, 21))),
    )
