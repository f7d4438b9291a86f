"""A served environment with its tasks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from turnpoint.envs.adapters.env import AdapterEnv
from turnpoint.envs.adapters.openenv.facts import ask_server
from turnpoint.envs.adapters.openenv.seat import RemoteSeat
from turnpoint.envs.adapters.openenv.settings import OpenEnvSettings
from turnpoint.envs.adapters.suite import AdapterSuite
from turnpoint.envs.seeded import SeededTasks
from turnpoint.records import Task


class OpenEnvSuite(AdapterSuite):
    """What the ``openenv`` section of a run config builds."""

    settings: OpenEnvSettings

    def __init__(self, settings: OpenEnvSettings) -> None:
        """Asks the server for its schema and tasks. Raises ``EnvDataError`` if it cannot be played in text."""
        self.facts = ask_server(settings)
        super().__init__(
            settings,
            replace(
                settings.capabilities,
                deterministic=settings.deterministic,
                admissible=settings.admissible,
            ),
            instructions=self.facts.description or "You act in an environment. Reply with one action.",
            instruction="do what the environment asks.",
        )
        for split, count in self.facts.tasks.items():
            wanted = settings.train_tasks if split == "train" else settings.valid_tasks
            self._tasks[split] = SeededTasks(split, min(count, wanted), self.draw)

    def draw(self, split: str, number: int) -> Task:
        """A task by seed, or by the server's split and index."""
        task = super().draw(split, number)
        if not self.facts.tasks:
            return task
        theirs = self.settings.train_split if split == "train" else self.settings.valid_split
        data = {"split": theirs, "index": number}
        return Task(task.id, task.env, task.instruction, "", "", task.seed, data)

    def make(self) -> AdapterEnv:
        """A new session."""
        return AdapterEnv(self.name, self.capabilities, RemoteSeat(self.settings, self.facts.action_field))

    def header(self) -> dict[str, Any]:
        """The server's name and version besides what all adapters tell."""
        told = {"name": self.facts.name, "version": self.facts.version, "tasks": self.facts.tasks}
        return super().header() | {"server": told}
