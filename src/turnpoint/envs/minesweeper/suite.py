"""Minesweeper with its tasks: what the ``minesweeper`` section of a run config builds."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

from turnpoint.envs.minesweeper import text
from turnpoint.envs.minesweeper.board import Board, as_set, bits
from turnpoint.envs.minesweeper.env import MinesweeperEnv
from turnpoint.envs.minesweeper.generator import GENERATOR_VERSION, draw_board
from turnpoint.envs.minesweeper.posterior import MOST_LAYOUTS, count_layouts
from turnpoint.envs.minesweeper.settings import CAPABILITIES, MinesweeperSettings
from turnpoint.envs.protocol import EnvError
from turnpoint.envs.seeded import SeededSuite, seed_of
from turnpoint.records import Task

_BOARD = ("rows", "columns", "mines", "opens", "guess_free", "board_seed")
"""Settings that decide what a seed draws (with ``max_turns`` if ``guess_free``)."""
_BAND = 2
_BOARDS_KEPT = 1024


class MinesweeperSuite(SeededSuite):
    """Generated boards. A task carries its board in ``data`` as ``rows``, ``columns``, ``mines`` and ``first``,
    with 1-based places ``[row, column]``; so may a task of your own."""

    name = "minesweeper"
    capabilities = CAPABILITIES

    def __init__(self, settings: MinesweeperSettings) -> None:
        """Raises ``EnvDataError`` if the settings allow hardly any board."""
        self.settings = settings
        self.max_turns = settings.max_turns
        self.instructions = text.instructions(settings)
        self._board = functools.lru_cache(maxsize=_BOARDS_KEPT)(Board)
        super().__init__(settings, self._task)

    def make(self) -> MinesweeperEnv:
        """A new playable copy."""
        return MinesweeperEnv(self.settings, self._load)

    def header(self) -> dict[str, Any]:
        """Generator, board settings, their hash and counts."""
        board = {name: getattr(self.settings, name) for name in _BOARD}
        if self.settings.guess_free:
            board["max_turns"] = self.max_turns
        return self.header_of(GENERATOR_VERSION, "boards", board)

    def vocabulary_texts(self) -> Iterable[str]:
        """Every word and sign of the environment; each cell of the field is a word of its own."""
        return text.vocabulary_texts(self.settings)

    def _task(self, split: str, number: int) -> Task:
        seed = seed_of(split, number)
        board, start, opens = draw_board(self.settings, split, seed)
        least = (opens - 1) // _BAND * _BAND + 1
        return Task(
            id=f"{split}-{number:05d}",
            env=self.name,
            instruction=text.TASK.format(self.settings.mines),
            type=f"opens_{least:02d}_{least + _BAND - 1:02d}",
            seed=seed,
            data={
                "rows": board.rows,
                "columns": board.columns,
                "mines": [_place(board, cell) for cell in bits(board.mines)],
                "first": _place(board, start),
            },
        )

    def _load(self, task: Task) -> tuple[Board, int]:
        """Board and first cell of a task; raises ``EnvError`` if it holds none that can be played."""
        try:
            rows, columns = int(task.data["rows"]), int(task.data["columns"])
            mines = [_cell(place, rows, columns) for place in task.data["mines"]]
            first = _cell(task.data["first"], rows, columns)
        except (KeyError, TypeError, ValueError) as error:
            raise EnvError(
                f"task {task.id} is not a Minesweeper task: rows, columns, mines and first do not describe a board "
                f"({type(error).__name__}: {error})"
            ) from error
        if (
            first in mines
            or len({*mines, first}) <= 1
            or count_layouts(rows * columns, len(mines)) > MOST_LAYOUTS
        ):
            raise EnvError(
                f"task {task.id} cannot be played: its first cell is mined, it has no mine, or its mines can lie "
                f"in more than {MOST_LAYOUTS} ways"
            )
        board = self._board(rows, columns, as_set(mines))
        if board.opens[first] == board.safe:
            raise EnvError(f"task {task.id} cannot be played: its first cell wins the game")
        return board, first


def _place(board: Board, cell: int) -> list[int]:
    row, column = divmod(cell, board.columns)
    return [row + 1, column + 1]


def _cell(place: Sequence[int], rows: int, columns: int) -> int:
    row, column = place
    if not (1 <= row <= rows and 1 <= column <= columns):
        raise ValueError(f"{list(place)} is outside of {rows} x {columns}")
    return (row - 1) * columns + column - 1
