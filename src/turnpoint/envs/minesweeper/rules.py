"""Opening cells, rewards, and what a careful player does: pure functions over immutable states."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple

from turnpoint.envs.minesweeper.board import Board, bits
from turnpoint.envs.minesweeper.posterior import Posterior, layouts, shown_numbers
from turnpoint.envs.minesweeper.settings import MinesweeperSettings

_LONGEST_ACTION = 100
_CELL = re.compile(r"(?:open\s+)?[(\[]?\s*([0-9]{1,4})\s*[,;\s]\s*([0-9]{1,4})\s*[)\]]?", re.IGNORECASE)


class State(NamedTuple):
    """All that changes while a board is played."""

    opened: int
    """Set of open cells."""
    exploded: int = -1
    """The mine that was opened; -1 = none."""
    used: int = 0
    """Opens made, those without effect included."""


class Outcome(StrEnum):
    """What an open did; each has its reward."""

    WON = "won"
    MINE = "mine"
    CASCADE = "cascade"
    CELL = "cell"
    NO_EFFECT = "no effect"


def won(board: Board, state: State) -> bool:
    """Whether every safe cell is open."""
    return state.opened == board.safe


def over(board: Board, state: State) -> bool:
    """Whether the game is won or lost."""
    return state.exploded >= 0 or won(board, state)


def open_cell(board: Board, state: State, cell: int | None) -> tuple[State, Outcome]:
    """State after an open; None stands for a place outside the field."""
    used = state.used + 1
    if cell is None or state.opened >> cell & 1:
        return state._replace(used=used), Outcome.NO_EFFECT
    if board.mines >> cell & 1:
        return State(state.opened, cell, used), Outcome.MINE
    after = State(state.opened | board.opens[cell], -1, used)
    if won(board, after):
        return after, Outcome.WON
    several = (after.opened & ~state.opened).bit_count() > 1
    return after, Outcome.CASCADE if several else Outcome.CELL


def reward(outcome: Outcome, settings: MinesweeperSettings) -> float:
    """The one reward of an open."""
    return {
        Outcome.WON: settings.success_reward,
        Outcome.MINE: settings.mine_reward,
        Outcome.CASCADE: settings.cascade_reward,
        Outcome.CELL: settings.cell_reward,
        Outcome.NO_EFFECT: settings.no_effect_reward,
    }[outcome]


def opens_needed(board: Board, state: State) -> int | None:
    """L(s): least number of opens that win, for a player who knows the mines; None after a mine."""
    return None if state.exploded >= 0 else board.opens_needed(state.opened)


def posterior(board: Board, state: State) -> Posterior:
    """Exact probabilities given the numbers of the open cells and the number of mines."""
    known = layouts(board.rows, board.columns, board.mines.bit_count())
    return known.posterior(shown_numbers(state.opened, board.numbers))


def careful_cells(board: Board, state: State) -> list[int]:
    """Closed cells with the least probability of a mine: all provably safe ones where there are any.

    Those that are most likely to cascade come first. Opening any other cell while one of them is provably
    safe is a mistake that the player could have known.
    """
    found = posterior(board, state)
    closed = list(bits((1 << board.cells) - 1 & ~state.opened))
    least = min(found.mines[cell] for cell in closed)
    cells = [cell for cell in closed if found.mines[cell] == least]
    return sorted(cells, key=lambda cell: (-found.empty[cell], cell))


def wins_without_guess(board: Board, state: State, turns: int) -> bool:
    """Whether careful play wins within ``turns`` and opens only provably safe cells on the way."""
    for _ in range(turns):
        cell = careful_cells(board, state)[0]
        if posterior(board, state).mines[cell]:
            return False
        state, _ = open_cell(board, state, cell)
        if won(board, state):
            return True
    return False


def parse(action: str) -> tuple[int, int] | None:
    """1-based row and column of an action in either spelling; None if it is not a pair of numbers."""
    text = action.strip() if len(action) <= _LONGEST_ACTION else ""
    found = _CELL.fullmatch(text)
    return (int(found[1]), int(found[2])) if found else None


def cell_at(board: Board, row: int, column: int) -> int | None:
    """The cell at a 1-based place; None outside the field."""
    inside = 1 <= row <= board.rows and 1 <= column <= board.columns
    return (row - 1) * board.columns + column - 1 if inside else None
