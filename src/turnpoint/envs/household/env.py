"""One playable household: the engine and its oracles behind the environment contract."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

from turnpoint.envs.household.engine import Action, Engine
from turnpoint.envs.household.game import Game, State
from turnpoint.envs.household.observed import ObservedOracle
from turnpoint.envs.household.oracle import Oracle
from turnpoint.envs.household.settings import CAPABILITIES, HouseholdSettings
from turnpoint.envs.household.text import UNKNOWN, introduction, reminder
from turnpoint.envs.protocol import EnvError, Knowledge
from turnpoint.records import Observation, Step, Task

HIDDEN = frozenset({"help"})
"""Commands that the engine accepts and prompts do not list."""


class Play:
    """Rules and oracles of one game, shared by every copy that plays it. Holds caches, no play state."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self.engine = Engine(game)
        self.oracle = Oracle(self.engine)
        self.observed = ObservedOracle(self.oracle)


class Snapshot(NamedTuple):
    """All that changes in an episode; immutable, so taking and restoring one is a reference."""

    play: Play
    state: State
    seen: int
    """Receptacles whose contents the episode has shown (bit mask)."""
    text: str
    """Current observation without the reminder."""
    done: bool


class HouseholdEnv:
    """A household that can be played, forked and asked for the best way on."""

    capabilities = CAPABILITIES

    def __init__(self, settings: HouseholdSettings, load: Callable[[Task], Play]) -> None:
        """``load`` gives the game of a task; it raises ``EnvError`` if the task is not one of its own."""
        self._settings = settings
        self._load = load
        self._now: Snapshot | None = None

    def reset(self, task: Task) -> Observation:
        """Start ``task``. Raises ``EnvError`` if its game is not available here."""
        play = self._load(task)
        start = play.game.start
        text = introduction(play.game, brief=self._settings.short_start)
        self._now = Snapshot(play, start, play.observed.see(0, start), text, play.engine.won(start))
        return self._observation()

    def step(self, action: str) -> Step:
        """Execute a command; after the task is solved nothing happens any more."""
        now = self._current()
        engine = now.play.engine
        command = action.strip()
        parsed = None if now.done else engine.commands(now.state).get(command)
        if parsed is None:
            self._now = now._replace(text=UNKNOWN)
            return Step(self._observation(), 0.0, now.done, True if now.done else None, effective=False)
        state, text, _ = engine.step(now.state, command)
        done = engine.won(state)
        seen = now.play.observed.see(now.seen, state, parsed)
        self._now = Snapshot(now.play, state, seen, text, done)
        reward = self._settings.success_reward if done else 0.0
        return Step(self._observation(), reward, done, True if done else None)

    def snapshot(self) -> Snapshot:
        """The whole state; it keeps its game alive and fits every copy of the environment."""
        return self._current()

    def restore(self, snapshot: Any) -> Observation:
        """Return to ``snapshot``."""
        if not isinstance(snapshot, Snapshot):
            raise EnvError(f"a {type(snapshot).__name__} is not a snapshot of a household")
        self._now = snapshot
        return self._observation()

    def distance(self) -> int | None:
        """Least number of commands that still completes the task; None after a fatal mistake."""
        now = self._current()
        return 0 if now.done else now.play.oracle.distance(now.state)

    def best_actions(self, knowledge: Knowledge = "full") -> list[str]:
        """Commands of a shortest way (``full``), or best for what the episode has shown (``observed``)."""
        now = self._current()
        if now.done:
            return []
        if knowledge == "observed":
            return now.play.observed.best_actions(now.state, now.seen)
        return now.play.oracle.best_actions(now.state)

    def close(self) -> None:
        """Forget the episode."""
        self._now = None

    def _current(self) -> Snapshot:
        if self._now is None:
            raise EnvError("the household has not been reset to a task yet")
        return self._now

    def _observation(self) -> Observation:
        now = self._current()
        game, state = now.play.game, now.state
        text = f"{now.text}\n{reminder(game, state)}" if self._settings.state_reminder else now.text
        commands: dict[str, Action] = {} if now.done else now.play.engine.commands(state)
        admissible = tuple([command for command in commands if command not in HIDDEN])
        return Observation(text, admissible, state_key(state))


def state_key(state: State) -> str:
    """Equal for states that play on alike; what only ``look`` would show differently does not count."""
    return hashlib.blake2b(repr(state[:5]).encode(), digest_size=8).hexdigest()
