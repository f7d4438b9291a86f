"""What the agent reads: rules, the field, and what its last open did."""

from __future__ import annotations

from collections.abc import Iterable

from turnpoint.envs.minesweeper.board import Board
from turnpoint.envs.minesweeper.rules import Outcome, State
from turnpoint.envs.minesweeper.settings import MinesweeperSettings

TASK = "Open every cell without a mine. Mines: {}."
OPENED = "You opened {}. New cells: {}."
MINE = "You opened {}. It is a mine, the game is lost."
AGAIN = "{} is open already."
OUTSIDE = "{} is outside the field."
WON = "All safe cells are open."
ENDED = "The game is over."
HIDDEN, EXPLODED = "?", "*"


def place(row: int, column: int, settings: MinesweeperSettings) -> str:
    """1-based row and column as an action."""
    return f"({row}, {column})" if settings.brackets else f"{row} {column}"


def instructions(settings: MinesweeperSettings) -> str:
    """Rules for the prompt."""
    form = "(row, column)" if settings.brackets else "row column"
    return (
        f"You play Minesweeper on a field of {settings.rows} rows and {settings.columns} columns with "
        f"{settings.mines} hidden mines. Signs of the field: {HIDDEN} closed cell, a number for an open cell, "
        f"{EXPLODED} the mine you opened. The number says how many of the up to eight cells around it are mines. "
        f"Opening a cell with number 0 also opens all cells around it. Opening a mine loses the game; it is won "
        f"when every cell without a mine is open. Every turn, open one cell by its place {form}, counted from 1 "
        f"at the top left, for example: {place(2, 1, settings)}. You have {settings.max_turns} turns."
    )


def misread(settings: MinesweeperSettings) -> str:
    """Answer to an action that is no place."""
    return f"Not understood. Give the row and column of one cell, for example: {place(2, 1, settings)}."


def opened(where: str, before: State, after: State) -> str:
    """Answer to an open that showed cells."""
    return OPENED.format(where, (after.opened & ~before.opened).bit_count())


def feedback(where: str, outcome: Outcome, before: State, after: State, *, inside: bool) -> str:
    """What an open did."""
    if outcome is Outcome.NO_EFFECT:
        return (AGAIN if inside else OUTSIDE).format(where)
    if outcome is Outcome.MINE:
        return MINE.format(where)
    said = opened(where, before, after)
    return f"{said} {WON}" if outcome is Outcome.WON else said


def show(board: Board, state: State, said: str, settings: MinesweeperSettings) -> str:
    """The observation: ``said`` and the field, one word per cell."""
    lines, width = [said], len(str(max(board.rows, board.columns)))
    if settings.labels:
        lines.append(" ".join([" " * width, *(str(c + 1).rjust(width) for c in range(board.columns))]))
    for row in range(board.rows):
        signs = [_sign(board, state, row * board.columns + column) for column in range(board.columns)]
        label = [str(row + 1)] if settings.labels else []
        lines.append(" ".join(sign.rjust(width) for sign in [*label, *signs]))
    return "\n".join(lines)


def _sign(board: Board, state: State, cell: int) -> str:
    if cell == state.exploded:
        return EXPLODED
    return str(board.numbers[cell]) if state.opened >> cell & 1 else HIDDEN


def vocabulary_texts(settings: MinesweeperSettings) -> Iterable[str]:
    """Strings that together hold every word and sign of the environment."""
    yield from (TASK.format(settings.mines), OPENED.format("", ""), WON, ENDED, HIDDEN, EXPLODED)
    yield from (pattern.format("") for pattern in (MINE, AGAIN, OUTSIDE))
    yield from (misread(settings), instructions(settings))
    cells = settings.rows * settings.columns
    yield " ".join(str(number) for number in range(cells + 1))
