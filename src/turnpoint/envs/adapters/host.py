"""Many games behind one door: what a process of its own serves, and what also plays in this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from turnpoint.envs.adapters.game import Game, Nonsense, Shown, checked
from turnpoint.envs.adapters.randomness import OwnStreams

Answer = dict[str, Any]
"""A checked answer as plain JSON; or ``nonsense``: what is wrong with it; or ``lost``: there is no such game here."""


class Host:
    """Games by number. The caller chooses the numbers, and never uses one twice."""

    alone: ClassVar[bool] = False
    """Whether the process does nothing but play."""

    def __init__(self) -> None:
        self.games: dict[int, tuple[Game, OwnStreams, int]] = {}

    def open(
        self,
        number: int,
        settings: Mapping[str, Any],
        patience: float,
        closed: Sequence[int],
        seed: int,
        data: Mapping[str, Any],
    ) -> Answer:
        """Make a game of an ``env`` section and start a task; ``closed`` are games that nobody needs any more."""
        from turnpoint.envs.adapters.settings import AdapterSettings
        from turnpoint.envs.registry import env_registry

        for old in closed:
            self.close(old)
        parsed = env_registry.parse(dict(settings))
        assert isinstance(parsed, AdapterSettings)
        streams = OwnStreams(patience, alone=self.alone)
        with streams.used():
            game = parsed.game()
        self.games[number] = game, streams, parsed.max_characters
        return self.reset(number, seed, data)

    def reset(self, number: int, seed: int, data: Mapping[str, Any]) -> Answer:
        """Start a task."""
        if number not in self.games:
            return {"lost": True}
        game, streams, longest = self.games[number]
        streams.seed(seed)
        return self._answer(streams, longest, lambda: game.reset(data))

    def step(self, number: int, action: str) -> Answer:
        """Execute an action."""
        if number not in self.games:
            return {"lost": True}
        game, streams, longest = self.games[number]
        return self._answer(streams, longest, lambda: game.step(action))

    def close(self, number: int) -> None:
        """Close a game; whatever it raises is of no interest any more."""
        found = self.games.pop(number, None)
        if found is None:
            return
        try:
            with found[1].used():
                found[0].close()
        except Exception:
            return

    def _answer(self, streams: OwnStreams, longest: int, play: Callable[[], Shown]) -> Answer:
        try:
            with streams.used():
                shown = play()
            return checked(shown, longest)._asdict()
        except Nonsense as error:
            return {"nonsense": str(error)}


class ChildHost(Host):
    """The same in a process of its own, which ends itself where it has no memory left: a new one is made."""

    alone = True

    def _answer(self, streams: OwnStreams, longest: int, play: Callable[[], Shown]) -> Answer:
        try:
            return super()._answer(streams, longest, play)
        except MemoryError:
            os._exit(3)
