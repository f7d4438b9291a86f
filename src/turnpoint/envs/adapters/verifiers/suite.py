"""A verifiers taskset as tasks: every so-manyth one is ``valid``."""

from __future__ import annotations

from typing import Any

from turnpoint.envs.adapters.suite import AdapterSuite
from turnpoint.envs.adapters.verifiers.library import TaskList, load_environment
from turnpoint.envs.adapters.verifiers.seat import refuse_more_than_text
from turnpoint.envs.adapters.verifiers.settings import VerifiersSettings
from turnpoint.envs.protocol import EnvDataError, EnvError
from turnpoint.envs.seeded import SeededTasks


class VerifiersSuite(AdapterSuite):
    """What the ``verifiers`` section of a run config builds."""

    settings: VerifiersSettings

    def __init__(self, settings: VerifiersSettings) -> None:
        """Loads the taskset. Raises ``EnvDataError`` if it cannot be loaded, is empty, or needs more than text."""
        environment = load_environment(settings)
        tasks = TaskList(environment.taskset)
        self._every = max(2, round(1 / settings.valid_share))
        try:
            refuse_more_than_text(tasks[0])
        except IndexError as error:
            raise EnvDataError(f"env.taskset is {settings.taskset}, which has no task") from error
        except EnvError as error:
            raise EnvDataError(str(error)) from error
        super().__init__(
            settings,
            settings.capabilities,
            instructions="You answer the user. Your reply is read as it is.",
            instruction="answer the user.",
        )
        if not tasks.infinite:
            self._limit(len(tasks))

    def _limit(self, count: int) -> None:
        """No more tasks than a finite taskset has."""
        valid = count // self._every
        if valid < 1:
            raise EnvDataError(
                f"the taskset has {count} tasks, too few for a split 'valid' of share {self.settings.valid_share}; "
                "raise env.valid_share"
            )
        for split, there in (("train", count - valid), ("valid", valid)):
            wanted = self.settings.train_tasks if split == "train" else self.settings.valid_tasks
            self._tasks[split] = SeededTasks(split, min(there, wanted), self.draw)

    def task_data(self, split: str, number: int) -> dict[str, Any]:
        """The number in the taskset: ``valid`` takes every so-manyth, ``train`` those between."""
        if split == "valid":
            return {"task": (number + 1) * self._every - 1}
        return {"task": number + number // (self._every - 1)}

    def header(self) -> dict[str, Any]:
        """What is played, besides what all adapters tell."""
        return super().header() | {"taskset": self.settings.taskset}
