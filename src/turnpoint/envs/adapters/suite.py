"""An environment of another library with its tasks."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from turnpoint.envs.adapters.env import AdapterEnv
from turnpoint.envs.adapters.pool import Pool
from turnpoint.envs.adapters.settings import AdapterSettings
from turnpoint.envs.child import lost_processes
from turnpoint.envs.protocol import Capabilities, EnvDataError, EnvError
from turnpoint.envs.seeded import SeededTasks, seed_of
from turnpoint.records import Task


class AdapterSuite:
    """What the ``env`` section of an adapter builds. Subclasses say more of their tasks."""

    def __init__(
        self,
        settings: AdapterSettings,
        capabilities: Capabilities,
        *,
        instructions: str,
        instruction: str,
        actions: Sequence[str] = (),
    ) -> None:
        """``instruction``: what the agent is asked, in one line; ``actions``: what random walks try."""
        self.settings = settings
        self.name: str = settings.kind
        self.capabilities = capabilities
        self.max_turns: int = settings.max_turns
        self.instructions = settings.instructions or instructions
        self.instruction = instruction
        self.actions = tuple(actions)
        self.pool = Pool(settings.processes, settings.call_seconds, settings.process_mb)
        counts = {"train": settings.train_tasks, "valid": settings.valid_tasks}
        self._tasks = {split: SeededTasks(split, count, self.draw) for split, count in counts.items()}

    def draw(self, split: str, number: int) -> Task:
        """Task ``number`` of a split."""
        seed = seed_of(split, number)
        data = {"seed": seed, **self.task_data(split, number)}
        return Task(
            id=f"{self.name}-{split}-{number}",
            env=self.name,
            instruction=self.instruction,
            type=self.task_type(data),
            seed=seed,
            data=data,
        )

    def task_data(self, split: str, number: int) -> dict[str, Any]:
        """What a task's ``data`` holds besides its seed."""
        return {}

    def task_type(self, data: dict[str, Any]) -> str:
        """Family of a task, for results by type."""
        return ""

    def tasks(self, split: str) -> Sequence[Task]:
        """Tasks of ``train`` or ``valid`` in the order of their seeds, drawn when they are asked for."""
        if split not in self._tasks:
            raise EnvDataError(f"{self.name} has no split '{split}'; use train or valid")
        return self._tasks[split]

    def make(self) -> AdapterEnv:
        """A new copy; copies share the suite's processes in turn."""
        settings = self.settings.model_dump(mode="json")
        return AdapterEnv(self.name, self.capabilities, self.pool.seat(settings), self.actions)

    def counters(self) -> dict[str, float]:
        """Processes that were replaced, by reason."""
        return lost_processes(self.pool.children)

    def header(self) -> dict[str, Any]:
        """Versions of the library, what is played, and counts."""
        return {
            "env": self.name,
            "versions": {name: _version(name) for name in self.settings.distributions},
            "settings": self.settings.model_dump(mode="json"),
            "tasks": {split: len(tasks) for split, tasks in self._tasks.items()},
        }

    def vocabulary_texts(self) -> Iterable[str]:
        """What ``vocabulary_walks`` random episodes show. Raises ``EnvError`` where that is 0."""
        if not self.settings.vocabulary_walks:
            raise EnvError(
                f"{self.name} is an open language; use a model with a full tokenizer, or set env.vocabulary_walks if a "
                "few hundred random episodes show every word there is"
            )
        yield self.instructions
        yield self.instruction
        yield " ".join(self.actions)
        yield from self._walks()

    def _walks(self) -> Iterable[str]:
        """Texts of random walks, each once."""
        env, seen = self.make(), {""}
        for task in self.tasks("train")[: self.settings.vocabulary_walks]:
            draw = random.Random(f"words/{task.id}")
            observation, done = env.reset(task), False
            for _ in range(self.max_turns):
                if observation.text not in seen:
                    seen.add(observation.text)
                    yield observation.text
                if done:
                    break
                choices = [*(observation.admissible or self.actions), "nothing"]
                with suppress(EnvError):
                    step = env.step(draw.choice(choices))
                    observation, done = step.observation, step.done
        env.close()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"
