"""What every export does alike: choose a task, start it, and say what the agent is told first."""

from __future__ import annotations

from turnpoint.envs.protocol import Env, EnvSuite
from turnpoint.records import Observation, Step, Task


class Player:
    """One copy of an environment, with its task."""

    def __init__(self, suite: EnvSuite) -> None:
        self.suite = suite
        self.env: Env = suite.make()
        self.task: Task | None = None
        self.turns = 0

    def choose(self, split: str, index: int | None = None, seed: int | None = None) -> Task:
        """Task ``index`` of a split, or the one that ``seed`` falls on. Raises ``IndexError`` if there is none."""
        tasks = self.suite.tasks(split)
        if index is None:
            index = (seed or 0) % len(tasks)
        if not 0 <= index < len(tasks):
            raise IndexError(f"split '{split}' has tasks 0 to {len(tasks) - 1}, not {index}")
        return tasks[index]

    def start(self, task: Task) -> Observation:
        """Start a task; its text begins with what the agent is asked."""
        self.task, self.turns = task, 0
        seen = self.env.reset(task)
        return Observation(opening(task, seen), seen.admissible, seen.state_key)

    def step(self, action: str) -> tuple[Step, bool]:
        """The answer, and whether the turn budget ran out with it."""
        self.turns += 1
        step = self.env.step(action)
        return step, not step.done and self.turns >= self.suite.max_turns

    def close(self) -> None:
        """Close the copy."""
        self.env.close()


def opening(task: Task, seen: Observation) -> str:
    """The first observation after the task line."""
    return f"Your task: {task.instruction}\n{seen.text}" if task.instruction else seen.text


def listed(seen: Observation) -> str:
    """An observation with the actions that it lists."""
    if not seen.admissible:
        return seen.text
    return "\n".join([seen.text, "Admissible actions:", *seen.admissible])
