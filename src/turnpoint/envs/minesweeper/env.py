"""One playable board behind the environment contract."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from turnpoint.envs.minesweeper import rules, text
from turnpoint.envs.minesweeper.board import Board, bits
from turnpoint.envs.minesweeper.rules import State
from turnpoint.envs.minesweeper.settings import CAPABILITIES, MinesweeperSettings
from turnpoint.envs.protocol import EnvError, Knowledge
from turnpoint.records import Observation, Step, Task


class Snapshot(NamedTuple):
    """All that changes in an episode; immutable, so taking and restoring one is a reference."""

    board: Board
    state: State
    said: str
    """First line of the current observation."""


class MinesweeperEnv:
    """A board that can be played, forked and asked for the best way on.

    Both spellings of a place, ``(row, column)`` and ``row column``, are understood.
    """

    capabilities = CAPABILITIES

    def __init__(self, settings: MinesweeperSettings, load: Callable[[Task], tuple[Board, int]]) -> None:
        """``load`` gives a task's board and first cell; it raises ``EnvError`` if the task holds none."""
        self._settings = settings
        self._load = load
        self._now: Snapshot | None = None

    def reset(self, task: Task) -> Observation:
        """Start ``task`` with its first cell open. Raises ``EnvError`` if it holds no playable board."""
        board, first = self._load(task)
        state = State(board.opens[first])
        self._now = Snapshot(board, state, text.opened(self._spell(board, first), State(0), state))
        return self._observation()

    def step(self, action: str) -> Step:
        """Open a cell. A place that is open already or outside the field is answered and has no effect."""
        board, state, _ = self._current()
        place = rules.parse(action)
        if place is None or rules.over(board, state):
            said = text.misread(self._settings) if place is None else text.ENDED
            self._now = Snapshot(board, state, said)
            return self._step(0.0, effective=False)
        cell = rules.cell_at(board, *place)
        after, outcome = rules.open_cell(board, state, cell)
        where = text.place(*place, self._settings)
        said = text.feedback(where, outcome, state, after, inside=cell is not None)
        self._now = Snapshot(board, after, said)
        reward = rules.reward(outcome, self._settings)
        return self._step(reward, effective=outcome is not rules.Outcome.NO_EFFECT)

    def snapshot(self) -> Snapshot:
        """The whole state; it keeps its board alive and fits every copy of the environment."""
        return self._current()

    def restore(self, snapshot: Any) -> Observation:
        """Return to ``snapshot``."""
        if not isinstance(snapshot, Snapshot):
            raise EnvError(f"a {type(snapshot).__name__} is not a snapshot of Minesweeper")
        self._now = snapshot
        return self._observation()

    def distance(self) -> int | None:
        """Least number of opens that win for a player who knows the mines; None after opening one."""
        board, state, _ = self._current()
        return rules.opens_needed(board, state)

    def best_actions(self, knowledge: Knowledge = "full") -> list[str]:
        """``full``: cells that lower the distance by one, those that show most first. ``observed``: the cells
        least likely to be mined by the numbers shown (all provably safe ones where there are any)."""
        board, state, _ = self._current()
        if rules.over(board, state):
            return []
        cells = board.useful(state.opened) if knowledge == "full" else rules.careful_cells(board, state)
        return [self._spell(board, cell) for cell in cells]

    def mine_probabilities(self) -> dict[str, float]:
        """Exact probability of a mine for every admissible action, by the numbers shown; empty once it is over."""
        board, state, _ = self._current()
        if rules.over(board, state):
            return {}
        found = rules.posterior(board, state)
        closed = bits((1 << board.cells) - 1 & ~state.opened)
        return {self._spell(board, cell): found.probability(cell) for cell in closed}

    def close(self) -> None:
        """Forget the episode."""
        self._now = None

    def _spell(self, board: Board, cell: int) -> str:
        row, column = divmod(cell, board.columns)
        return text.place(row + 1, column + 1, self._settings)

    def _current(self) -> Snapshot:
        if self._now is None:
            raise EnvError("Minesweeper has not been reset to a task yet")
        return self._now

    def _step(self, reward: float, *, effective: bool) -> Step:
        board, state, _ = self._current()
        done = rules.over(board, state)
        return Step(self._observation(), reward, done, rules.won(board, state) if done else None, effective)

    def _observation(self) -> Observation:
        board, state, said = self._current()
        closed = () if rules.over(board, state) else bits((1 << board.cells) - 1 & ~state.opened)
        admissible = tuple(self._spell(board, cell) for cell in closed)
        return Observation(text.show(board, state, said, self._settings), admissible, _state_key(state))


def _state_key(state: State) -> str:
    """Open cells and the mine that was opened: all that matters, as a task's mines never change."""
    return f"{state.opened:x}|{state.exploded}"
