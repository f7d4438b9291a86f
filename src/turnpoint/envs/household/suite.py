"""The household environment with its tasks: generated ones, or released games from a folder."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any

from turnpoint.envs.household.env import HouseholdEnv, Play
from turnpoint.envs.household.settings import CAPABILITIES, HouseholdSettings
from turnpoint.envs.household.sources import FolderGames, GameSource, GeneratedGames
from turnpoint.envs.protocol import EnvDataError, EnvError
from turnpoint.records import Task

INSTRUCTIONS = (
    "You are in a household and solve a task there. You see what is in or on the place you stand at; closed "
    "places must be opened first. You can carry one object at a time. Objects are heated with a microwave, "
    "cooled with a fridge and cleaned with a sinkbasin while you hold them. Every turn, choose exactly one of "
    "the admissible actions and write it as it is listed."
)
_GAMES_KEPT = 256


class HouseholdSuite:
    """What the ``household`` section of a run config builds."""

    name = "household"
    capabilities = CAPABILITIES
    instructions = INSTRUCTIONS

    def __init__(self, settings: HouseholdSettings) -> None:
        self.settings = settings
        self.max_turns = settings.max_turns
        self.source: GameSource = (
            GeneratedGames(settings) if settings.games == "generated" else FolderGames(settings)
        )
        self._plays: OrderedDict[str, Play] = OrderedDict()

    def tasks(self, split: str) -> Sequence[Task]:
        """Tasks of ``train`` or ``valid`` in a fixed order."""
        if split not in ("train", "valid"):
            raise EnvDataError(f"household has no split '{split}'; use train or valid")
        return self.source.tasks(split)

    def make(self) -> HouseholdEnv:
        """A new playable copy; copies share the games that were loaded."""
        return HouseholdEnv(self.settings, self._play)

    def header(self) -> dict[str, Any]:
        """Where the games come from, how many there are, their hashes and the files that cannot be used."""
        return {"env": self.name, **self.source.header()}

    def vocabulary_texts(self) -> Iterable[str]:
        """Every word the games can show or accept."""
        return self.source.vocabulary_texts()

    def _play(self, task: Task) -> Play:
        key = f"{task.data}"
        play = self._plays.pop(key, None)
        if play is None:
            try:
                play = Play(self.source.load(task))
            except EnvDataError as error:
                raise EnvError(f"task {task.id} cannot be played: {error}") from error
            if len(self._plays) >= _GAMES_KEPT:
                self._plays.popitem(last=False)
        self._plays[key] = play
        return play
