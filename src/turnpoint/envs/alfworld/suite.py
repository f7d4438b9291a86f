"""The environment around the real ALFWorld engine, with its games."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from turnpoint.envs.alfworld.env import AlfworldEnv
from turnpoint.envs.alfworld.games import GameFolder
from turnpoint.envs.alfworld.settings import CAPABILITIES, AlfworldSettings
from turnpoint.envs.child import Child, lost_processes
from turnpoint.envs.protocol import EnvError
from turnpoint.records import Task

INSTRUCTIONS = (
    "You are in a household and solve a task there. You see what is in or on the place you stand at; closed "
    "places must be opened first. You can carry one object at a time. Objects are heated with a microwave, "
    "cooled with a fridge and cleaned with a sinkbasin while you hold them. Every turn, choose exactly one of "
    "the admissible actions and write it as it is listed."
)
ENGINE = "turnpoint.envs.alfworld.engine:Service"


class AlfworldSuite:
    """What the ``alfworld`` section of a run config builds."""

    name = "alfworld"
    capabilities = CAPABILITIES
    instructions = INSTRUCTIONS

    def __init__(self, settings: AlfworldSettings) -> None:
        self.settings = settings
        self.max_turns: int = settings.max_turns
        folders = {"train": settings.train_split, "valid": settings.valid_split}
        self.games = GameFolder(Path(settings.games).expanduser(), folders)
        self.engines = [
            Child(ENGINE, settings.engine_seconds, resident_mb=settings.process_mb)
            for _ in range(settings.processes)
        ]
        self._next = itertools.cycle(self.engines)

    def tasks(self, split: str) -> Sequence[Task]:
        """Tasks of ``train`` or ``valid`` in the order of their paths."""
        return self.games.tasks(split)

    def make(self) -> AlfworldEnv:
        """A new copy; copies share the engine processes in turn."""
        return AlfworldEnv(self.settings, next(self._next), self._path)

    def counters(self) -> dict[str, float]:
        """Engine processes that were replaced, by reason."""
        return lost_processes(self.engines)

    def header(self) -> dict[str, Any]:
        """Versions of the engine, and counts and hashes of the games."""
        packages = ("alfworld", "textworld", "fast-downward-textworld")
        return {
            "env": self.name,
            "versions": {name: version(name) for name in packages},
            "games": str(self.games.root),
            "pinned": self.games.pinned,
            "tasks": {split: len(self.games._splits[split]) for split in self.games.folders},
            "sha256": {split: self.games.hash(split) for split in self.games.folders},
        }

    def vocabulary_texts(self) -> Iterable[str]:
        """The engine does not list its words; ``household`` does, for the same games."""
        raise EnvError("alfworld does not list its words; env.kind=household does, for the same games")

    def _path(self, task: Task) -> str:
        name = task.data.get("path")
        if not isinstance(name, str) or "sha256" not in task.data:
            raise EnvError(f"task {task.id} names no game file; it belongs to another environment")
        path = (self.games.root / name).resolve()
        if not path.is_relative_to(self.games.root.resolve()):
            raise EnvError(f"task {task.id} names a file outside of {self.games.root}")
        if not path.is_file():
            raise EnvError(f"the game of task {task.id} is not at {path}; restore it")
        return str(path)
