"""One episode of an ALFWorld game; the engine itself works in another process."""

from __future__ import annotations

from typing import Any, NamedTuple

from turnpoint.envs.alfworld.settings import CAPABILITIES, AlfworldSettings
from turnpoint.envs.child import Child, ChildCrashed
from turnpoint.envs.protocol import EnvError, Knowledge
from turnpoint.records import Observation, Step, Task

HIDDEN = frozenset({"help"})
"""Commands that the engine accepts and prompts do not list."""
UNKNOWN = "Nothing happens."
_LONGEST = 200
"""Characters of a command; no game has one half as long."""


class Snapshot(NamedTuple):
    """A state: the commands that lead there, the key that proves it, and what was shown last. Immutable."""

    task: Task
    path: str
    commands: tuple[str, ...]
    key: str
    text: str
    admissible: tuple[str, ...]
    done: bool


class AlfworldEnv:
    """A game that can be played and forked."""

    capabilities = CAPABILITIES

    def __init__(self, settings: AlfworldSettings, engine: Child, path_of: Any) -> None:
        """``path_of`` gives the game file of a task; ``engine`` may serve other copies too."""
        self._settings, self._engine, self._path_of = settings, engine, path_of
        self._told = -1
        self._now: Snapshot | None = None

    def reset(self, task: Task) -> Observation:
        """Start ``task``. Raises ``EnvError`` if its game is not here, or the engine hangs or crashes."""
        path = self._path_of(task)
        answer = self._ask("start", path, str(task.data["sha256"]))
        self._now = Snapshot(task, path, (), *_shown(answer), answer["won"])
        return self._observation()

    def step(self, action: str) -> Step:
        """Execute a command; after the task is solved nothing happens any more."""
        now = self._current()
        command = action.strip()
        if now.done or len(command) > _LONGEST:
            self._now = now._replace(text=UNKNOWN)
            return Step(self._observation(), 0.0, now.done, True if now.done else None, effective=False)
        answer = self._ask(
            "step", now.path, str(now.task.data["sha256"]), list(now.commands), now.key, command
        )
        commands = (*now.commands, command) if answer["known"] else now.commands
        done = answer["won"]
        self._now = Snapshot(now.task, now.path, commands, *_shown(answer), done)
        reward = self._settings.success_reward if done else 0.0
        return Step(
            self._observation(), reward, done, True if done else None, effective=bool(answer["known"])
        )

    def snapshot(self) -> Snapshot:
        """The state by name; it fits every copy, and outlives a crash of the engine."""
        return self._current()

    def restore(self, snapshot: Any) -> Observation:
        """Return to ``snapshot``; the engine brings the state back, and proves it, with the next command."""
        if not isinstance(snapshot, Snapshot):
            raise EnvError(f"a {type(snapshot).__name__} is not a snapshot of an ALFWorld game")
        self._now = snapshot
        return self._observation()

    def distance(self) -> int | None:
        """There is no oracle here; ``household`` plays the same games with one."""
        raise EnvError("alfworld has no oracle; env.kind=household plays the same games with one")

    def best_actions(self, knowledge: Knowledge = "full") -> list[str]:
        """There is no oracle here; ``household`` plays the same games with one."""
        raise EnvError("alfworld has no oracle; env.kind=household plays the same games with one")

    def close(self) -> None:
        """Forget the episode; the suite keeps the engine."""
        self._now = None

    def _ask(self, method: str, *arguments: Any) -> dict[str, Any]:
        """The engine's answer. The planner library crashes now and then by itself: a call is asked a second time.

        That is sound, since every call names its state and the engine proves it; both crashes count.
        """
        try:
            return self._call(method, *arguments)
        except ChildCrashed:
            return self._call(method, *arguments)

    def _call(self, method: str, *arguments: Any) -> dict[str, Any]:
        if self._told != self._engine.generation:  # a new process does not know the setting yet
            self._engine.call("keep", self._settings.games_loaded)
            self._told = self._engine.generation
        answer: dict[str, Any] = self._engine.call(method, *arguments)
        return answer

    def _current(self) -> Snapshot:
        if self._now is None:
            raise EnvError("no game has been started yet")
        return self._now

    def _observation(self) -> Observation:
        now = self._current()
        return Observation(now.text, () if now.done else now.admissible, now.key)


def _shown(answer: dict[str, Any]) -> tuple[str, str, tuple[str, ...]]:
    admissible = tuple([command for command in answer["admissible"] if command not in HIDDEN])
    return answer["key"], answer["text"], admissible
