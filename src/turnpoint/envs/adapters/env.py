"""One episode of another library's environment."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Protocol

from turnpoint.envs.protocol import Capabilities, EnvError, Knowledge
from turnpoint.records import Observation, Step, Task

OVER = "The episode is over."


class Place(Protocol):
    """Where an episode is played: a seat in a process (``pool.Seat``), or a server's session."""

    def reset(self, seed: int, data: dict[str, Any]) -> dict[str, Any]:
        """Start a task."""

    def step(self, action: str) -> dict[str, Any] | None:
        """Execute an action; None if the game is gone, through no fault of its own."""

    def close(self) -> None:
        """Give the game up."""


class AdapterEnv:
    """A playable copy. Its process may be replaced while it plays: the episode is then replayed and verified."""

    def __init__(
        self, kind: str, capabilities: Capabilities, seat: Place, actions: Sequence[str] = ()
    ) -> None:
        """``actions``: what a random agent tries where none are listed."""
        self.capabilities = capabilities
        self._tries = tuple(actions)
        self._kind, self._seat = kind, seat
        self._task: Task | None = None
        self._actions: list[str] = []
        self._last: dict[str, Any] = {}

    def reset(self, task: Task) -> Observation:
        """Start ``task``. Raises ``EnvError`` (``Nonsense``, ``ChildHung``, ``ChildCrashed``) for what it does."""
        if task.env != self._kind:
            raise EnvError(f"task {task.id} belongs to environment '{task.env}', not to '{self._kind}'")
        self._task, self._actions = task, []
        self._last = self._seat.reset(task.seed, dict(task.data))
        return self._observation()

    def step(self, action: str) -> Step:
        """Execute ``action``; after the end nothing happens any more."""
        if self._task is None:
            raise EnvError("no task has been started yet")
        if self._last["done"]:
            return Step(self._observation(), 0.0, True, bool(self._last["success"]), effective=False)
        answer = self._seat.step(action)
        if answer is None:
            self._bring_back(self._task)
            answer = self._seat.step(action)
            if answer is None:
                raise EnvError("the process of this episode is lost again and again")
        self._actions.append(action)
        self._last = answer
        return Step(
            self._observation(),
            answer["reward"],
            answer["done"],
            answer["success"],
            effective=answer["effective"],
        )

    def _bring_back(self, task: Task) -> None:
        """Replay the episode in the new process. Raises ``EnvError`` if that shows something else."""
        if not self.capabilities.deterministic:
            raise EnvError(
                "the process of this episode was replaced because another one broke it, and the environment is not "
                "deterministic"
            )
        answer: dict[str, Any] | None = self._seat.reset(task.seed, dict(task.data))
        for action in self._actions:
            answer = self._seat.step(action)
        if answer is None or _shown(answer) != _shown(self._last):
            raise EnvError(
                "the process of this episode was replaced because another one broke it, and its replay does not show "
                "the same"
            )

    def snapshot(self) -> Any:
        """Not supported: these libraries cannot copy a running game."""
        raise EnvError(f"'{self._kind}' has no snapshots; its states are restored by replay")

    def restore(self, snapshot: Any) -> Observation:
        """Not supported."""
        raise EnvError(f"'{self._kind}' has no snapshots; its states are restored by replay")

    def distance(self) -> int | None:
        """Not supported."""
        raise EnvError(f"'{self._kind}' has no oracle")

    def best_actions(self, knowledge: Knowledge = "full") -> list[str]:
        """Not supported."""
        raise EnvError(f"'{self._kind}' has no oracle")

    def random_action(self, rng: random.Random) -> str:
        """One of the actions that are known to exist, else a word of what was shown last."""
        words = self._tries or str(self._last.get("text", "")).split() or ("nothing",)
        return rng.choice(words)

    def close(self) -> None:
        """Give the game up; the suite keeps its processes."""
        self._task = None
        self._seat.close()

    def _observation(self) -> Observation:
        answer = self._last
        if answer["done"]:
            return Observation(answer["text"] or OVER, () if self.capabilities.admissible else None)
        listed = answer["admissible"] if self.capabilities.admissible else None
        if self.capabilities.admissible and listed is None:
            raise EnvError("the environment did not list its admissible actions")
        return Observation(answer["text"], None if listed is None else tuple(listed))


def _shown(answer: dict[str, Any]) -> tuple[Any, ...]:
    return answer["text"], list(answer["admissible"] or ()), answer["done"]
