"""Which tasks a step trains on: a seeded permutation of all tasks, epoch after epoch."""

from __future__ import annotations

from collections.abc import Sequence

from turnpoint.records import Task
from turnpoint.rollouts import Streams


class TaskSampler:
    """Tasks of any step as a pure function of (seed, step): there is no state to lose on resume."""

    def __init__(self, tasks: Sequence[Task], per_step: int, streams: Streams) -> None:
        if len(tasks) < per_step:
            raise ValueError(
                f"train.tasks_per_step is {per_step}, but the environment has only {len(tasks)} training tasks; "
                f"set it to at most {len(tasks)} or add tasks"
            )
        self.tasks = tasks
        self.per_step = per_step
        self.streams = streams
        self._epoch: tuple[int, list[int]] = (-1, [])

    def step(self, step: int) -> list[Task]:
        """The tasks of ``step`` (0-based); a step that crosses an epoch never holds a task twice."""
        per_epoch = len(self.tasks) // self.per_step
        epoch, place = divmod(step, per_epoch)
        if self._epoch[0] != epoch:
            order = self.streams.rng("tasks", epoch).permutation(len(self.tasks)).tolist()
            self._epoch = (epoch, order)
        chosen = self._epoch[1][place * self.per_step : (place + 1) * self.per_step]
        return [self.tasks[i] for i in chosen]
