"""One playable level behind the environment contract."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from turnpoint.envs.protocol import EnvError, Knowledge
from turnpoint.envs.sokoban import rules, text
from turnpoint.envs.sokoban.rules import Game, State
from turnpoint.envs.sokoban.settings import CAPABILITIES
from turnpoint.records import Observation, Step, Task


class Snapshot(NamedTuple):
    """All that changes in an episode; immutable, so taking and restoring one is a reference."""

    game: Game
    state: State
    said: str
    """First line of the current observation."""


class SokobanEnv:
    """A level that can be played, forked and asked for the best way on.

    An action is one or more moves separated by commas, in any case and spacing. The admissible ones are
    those whose moves are all made; an action with a blocked move is executed too, but wastes that move.
    """

    capabilities = CAPABILITIES

    def __init__(self, load: Callable[[Task], Game]) -> None:
        """``load`` gives the level of a task; it raises ``EnvError`` if the task holds no playable one."""
        self._load = load
        self._now: Snapshot | None = None

    def reset(self, task: Task) -> Observation:
        """Start ``task``. Raises ``EnvError`` if it holds no playable level."""
        game = self._load(task)
        self._now = Snapshot(game, rules.start(game.level), text.BEGIN)
        return self._observation()

    def step(self, action: str) -> Step:
        """Make the moves of ``action``; it is effective if one of them changed something."""
        game, state, _ = self._current()
        moves = rules.parse(action, game.settings.moves_per_turn)
        if state.over or moves is None:
            self._now = Snapshot(game, state, text.ENDED if state.over else text.misread(game.settings))
            return self._step(0.0, effective=False)
        played = rules.play(game, state, moves)
        self._now = Snapshot(game, played.state, text.feedback(game, played))
        return self._step(played.reward, effective=bool(played.made))

    def snapshot(self) -> Snapshot:
        """The whole state; it keeps its level alive and fits every copy of the environment."""
        return self._current()

    def restore(self, snapshot: Any) -> Observation:
        """Return to ``snapshot``."""
        if not isinstance(snapshot, Snapshot):
            raise EnvError(f"a {type(snapshot).__name__} is not a snapshot of Sokoban")
        self._now = snapshot
        return self._observation()

    def distance(self) -> int | None:
        """Least number of turns to the end (see ``rules.turns_needed``); None if the level is lost."""
        game, state, _ = self._current()
        return rules.turns_needed(game, state)

    def best_actions(self, knowledge: Knowledge = "full") -> list[str]:
        """Admissible actions that lower the distance by one; nothing is hidden, so both kinds are the same.

        First come those that leave the fewest moves to make, and of these the shortest.
        """
        game, state, _ = self._current()
        return [option.action for option in rules.best_options(game, state)]

    def close(self) -> None:
        """Forget the episode."""
        self._now = None

    def _current(self) -> Snapshot:
        if self._now is None:
            raise EnvError("Sokoban has not been reset to a task yet")
        return self._now

    def _step(self, reward: float, *, effective: bool) -> Step:
        game, state, _ = self._current()
        success = rules.solved(game, state) if state.over else None
        return Step(self._observation(), reward, state.over, success, effective)

    def _observation(self) -> Observation:
        game, state, said = self._current()
        admissible = tuple(option.action for option in rules.options(game, state))
        return Observation(text.show(game, state, said), admissible, _state_key(game, state))


def _state_key(game: Game, state: State) -> str:
    """Player, boxes and whether the level is over; moves made only where they can run out before turns do."""
    left = f"|{game.settings.move_budget - state.used}" if game.settings.budget_binds else ""
    return f"{state.player}|{state.boxes:x}|{int(state.over)}{left}"
