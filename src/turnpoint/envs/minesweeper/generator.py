"""Random boards: each seed gives one that can be won within the given number of opens."""

from __future__ import annotations

import random
from typing import NamedTuple

from turnpoint.envs.minesweeper import rules
from turnpoint.envs.minesweeper.board import Board, as_set
from turnpoint.envs.minesweeper.rules import State
from turnpoint.envs.minesweeper.settings import MinesweeperSettings
from turnpoint.envs.protocol import EnvDataError
from turnpoint.envs.seeded import split_of

GENERATOR_VERSION = 1
"""Raised whenever a seed gives another board."""
_MOST_DRAWS = 20_000


class Drawn(NamedTuple):
    """A board, the cell that is opened at the start, and the opens needed after that."""

    board: Board
    first: int
    opens: int


def draw_board(settings: MinesweeperSettings, split: str, seed: int) -> Drawn:
    """Board of a seed. Raises ``EnvDataError`` if thousands of draws gave none that the settings allow."""
    # A text seeds by its bytes, so that every process draws the same; hash() would not.
    draw = random.Random(f"minesweeper {GENERATOR_VERSION}/{settings.board_seed}/{split}/{seed}")
    least, most = settings.opens
    for _ in range(_MOST_DRAWS):
        # The first cell and the mines are drawn as one sample: any cell but a mine is opened equally often.
        first, *mines = draw.sample(range(settings.rows * settings.columns), settings.mines + 1)
        if split_of(f"{settings.rows} {settings.columns} {first} {sorted(mines)}") != split:
            continue
        board = Board(settings.rows, settings.columns, as_set(mines))
        state = State(board.opens[first])
        opens = board.opens_needed(state.opened)
        if not least <= opens <= most:
            continue
        if not settings.guess_free or rules.wins_without_guess(board, state, settings.max_turns):
            return Drawn(board, first, opens)
    raise EnvDataError(
        f"minesweeper: {_MOST_DRAWS} draws of {settings.mines} mines on {settings.rows} x {settings.columns} gave "
        f"no board that needs {least} to {most} opens{' and no guess' if settings.guess_free else ''}; widen opens, "
        "or change the size or the number of mines"
    )
