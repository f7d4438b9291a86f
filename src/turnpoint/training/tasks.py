"""Which tasks a step trains on: seeded permutations of all tasks, one epoch after the other without a gap."""

from __future__ import annotations

from collections.abc import Sequence

from turnpoint.records import Task
from turnpoint.rollouts import Streams


class TaskSampler:
    """Tasks of any step as a pure function of (seed, step): there is no state to lose on resume.

    Every epoch holds every task once. Where an epoch ends in the middle of a step, the step goes on with tasks of
    the next epoch that it does not hold yet.
    """

    def __init__(self, tasks: Sequence[Task], per_step: int, streams: Streams) -> None:
        if len(tasks) < per_step:
            raise ValueError(
                f"train.tasks_per_step is {per_step}, but the environment has only {len(tasks)} training tasks; "
                f"set it to at most {len(tasks)} or add tasks"
            )
        self.tasks = tasks
        self.per_step = per_step
        self.streams = streams
        self._known: tuple[int, list[int]] = (-1, [])
        """The epoch whose order was asked for last."""

    def step(self, step: int) -> list[Task]:
        """The tasks of ``step`` (0-based), all different; a step may cross from one epoch to the next."""
        epoch, place = divmod(step * self.per_step, len(self.tasks))
        chosen = self._order(epoch)[place : place + self.per_step]
        if len(chosen) < self.per_step:
            chosen = chosen + self._order(epoch + 1)[: self.per_step - len(chosen)]
        return [self.tasks[i] for i in chosen]

    def _order(self, epoch: int) -> list[int]:
        """All tasks in the order of an epoch.

        It depends on the epoch before only through the tasks that share a step with its own first ones. These are
        the last of that epoch's plain permutation, unless there are fewer than about two steps of tasks: then
        orders are rebuilt from the last epoch that begins with a step (at most ``per_step`` epochs back).
        """
        known, order = self._known
        if known == epoch:
            return order
        first = epoch
        while first - 1 != known and self._tied(first):
            first -= 1
        if first - 1 != known:
            order = self._permutation(first - 1) if self._left_over(first) else []
        for number in range(first, epoch + 1):
            left = self._left_over(number)
            order = self._apart(self._permutation(number), order[len(order) - left :])
        self._known = (epoch, order)
        return order

    def _left_over(self, epoch: int) -> int:
        """Tasks of the epoch before that fill the first part of the step in which ``epoch`` begins."""
        return epoch * len(self.tasks) % self.per_step

    def _tied(self, epoch: int) -> bool:
        """Whether the last tasks of the epoch before can differ from those of its plain permutation."""
        left = self._left_over(epoch)
        return left > 0 and self._left_over(epoch - 1) > 0 and len(self.tasks) < self.per_step + left

    def _apart(self, order: list[int], before: list[int]) -> list[int]:
        """``order``, with the first tasks not in ``before`` moved up to fill the step that ``before`` begins."""
        taken = set(before)
        head: list[int] = []
        for task in order:
            if not taken or len(head) == self.per_step - len(taken):
                break
            if task not in taken:
                head.append(task)
        moved = set(head)
        return [*head, *(task for task in order if task not in moved)]

    def _permutation(self, epoch: int) -> list[int]:
        order: list[int] = self.streams.rng("tasks", epoch).permutation(len(self.tasks)).tolist()
        return order
