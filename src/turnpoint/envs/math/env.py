"""One problem at a time: the reply is the solution, and its final answer is checked."""

from __future__ import annotations

import hashlib
import random
from typing import Any, NamedTuple

from turnpoint.envs.math.checker import Checker, boxed_answer
from turnpoint.envs.math.settings import CAPABILITIES, MathSettings
from turnpoint.envs.protocol import EnvError, Knowledge
from turnpoint.records import Observation, Step, Task

ASK = "Reason step by step and put the final answer within \\boxed{}."
ANSWERS = {
    "correct": "The answer is correct.",
    "wrong": "The answer is not correct.",
    "no answer": "There is no final answer in the reply.",
    "too long": "The final answer is too long to be one.",
    "not readable": "The final answer cannot be read as mathematics.",
    "time-out": "The final answer took too long to check.",
    "crash": "The final answer could not be checked.",
    "error": "The final answer could not be checked.",
}
"""What the environment says, by the reason of the verdict."""


class Snapshot(NamedTuple):
    """The whole state; immutable."""

    task: Task
    said: str
    """Empty while the problem is open."""


class MathEnv:
    """A problem that can be answered once."""

    capabilities = CAPABILITIES

    def __init__(self, settings: MathSettings, checker: Checker) -> None:
        self._settings, self._checker = settings, checker
        self._now: Snapshot | None = None

    def reset(self, task: Task) -> Observation:
        """Show the problem. Raises ``EnvError`` if its reference answer cannot be read."""
        reference = task.data.get("answer")
        if not isinstance(reference, str):
            raise EnvError(f"task {task.id} has no reference answer; it belongs to another environment")
        if not self._checker.readable(reference):
            raise EnvError(
                f"task {task.id}: its reference answer {reference!r} cannot be read as mathematics"
            )
        self._now = Snapshot(task, "")
        return self._observation()

    def step(self, action: str) -> Step:
        """Check the final answer of a solution; never raises for anything it holds."""
        now = self._current()
        if now.said:
            return Step(self._observation(), 0.0, True, False, effective=False)
        answer = boxed_answer(action) if self._settings.boxed else (boxed_answer(action) or action[-1000:])
        verdict = self._checker.check(str(now.task.data["answer"]), answer)
        self._now = now._replace(said=ANSWERS[verdict.reason])
        reward = self._settings.success_reward if verdict.correct else 0.0
        return Step(self._observation(), reward, True, verdict.correct, effective=verdict.reason in _READ)

    def snapshot(self) -> Snapshot:
        """The problem and whether it was answered."""
        return self._current()

    def restore(self, snapshot: Any) -> Observation:
        """Return to ``snapshot``."""
        if not isinstance(snapshot, Snapshot):
            raise EnvError(f"a {type(snapshot).__name__} is not a snapshot of a math problem")
        self._now = snapshot
        return self._observation()

    def distance(self) -> int | None:
        """There is no oracle."""
        raise EnvError("math has no oracle")

    def best_actions(self, knowledge: Knowledge = "full") -> list[str]:
        """There is no oracle."""
        raise EnvError("math has no oracle")

    def random_action(self, rng: random.Random) -> str:
        """A guess: a whole number below a thousand."""
        return f"\\boxed{{{rng.randrange(1000)}}}"

    def close(self) -> None:
        """Forget the problem; the checker is shared."""
        self._now = None

    def _current(self) -> Snapshot:
        if self._now is None:
            raise EnvError("no problem has been set yet")
        return self._now

    def _observation(self) -> Observation:
        now = self._current()
        key = hashlib.blake2b(f"{now.task.id}\n{now.said}".encode(), digest_size=8).hexdigest()
        return Observation(now.said or ASK, None, key)


_READ = ("correct", "wrong")
