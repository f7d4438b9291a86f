"""A level: walls, targets and where everything stands at the start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

MOVES = ("up", "down", "left", "right")
"""All moves, in the order in which lists name them."""
STEPS = ((-1, 0), (1, 0), (0, -1), (0, 1))
"""Change of (row, column) by each of ``MOVES``."""

WALL, FLOOR, TARGET, BOX, PLACED, PLAYER, STANDING = "#", "_", "O", "X", "*", "P", "S"
"""Symbols of a level in a task: wall, floor, target, box, box on a target, player, player on a target."""
_SYMBOLS = frozenset({WALL, FLOOR, TARGET, BOX, PLACED, PLAYER, STANDING})


class LevelError(ValueError):
    """A level that cannot be played; the message says why."""


@dataclass(frozen=True)
class Level:
    """An immutable level. Cells that are not walls are numbered row by row; sets of cells are bit masks."""

    rows: tuple[str, ...]
    """The level as text, one symbol per cell."""
    cells: tuple[tuple[int, int], ...]
    """0-based (row, column) of every cell that is not a wall."""
    targets: int
    boxes: int
    """Boxes at the start."""
    player: int
    """Cell of the player at the start."""

    @cached_property
    def next(self) -> tuple[tuple[int, ...], ...]:
        """Cell reached from a cell by each move, -1 for a wall or the edge: ``next[cell][move]``."""
        return neighbours(self.cells)


def neighbours(cells: Sequence[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:
    """For each of ``cells`` the number of the cell that each move leads to; -1 if it is not one of them."""
    number = {cell: i for i, cell in enumerate(cells)}
    return tuple(
        tuple(number.get((row + down, column + right), -1) for down, right in STEPS) for row, column in cells
    )


def parse_level(rows: Sequence[str]) -> Level:
    """The level that ``rows`` draw with the symbols ``# _ O X * P S``; beyond the edge all is wall.

    Raises ``LevelError`` unless it is a rectangle with one player and as many boxes as targets (at least one),
    not all of them placed yet.
    """
    if not rows or len({len(row) for row in rows}) != 1:
        raise LevelError("its rows do not have one common length")
    if unknown := sorted(set("".join(rows)) - _SYMBOLS):
        raise LevelError(f"symbol {unknown[0]!r} means nothing; use {' '.join(sorted(_SYMBOLS))}")
    cells = [(r, c) for r, row in enumerate(rows) for c, symbol in enumerate(row) if symbol != WALL]
    symbols = [rows[r][c] for r, c in cells]
    targets = _mask(symbols, {TARGET, PLACED, STANDING})
    boxes = _mask(symbols, {BOX, PLACED})
    players = [i for i, symbol in enumerate(symbols) if symbol in (PLAYER, STANDING)]
    if len(players) != 1:
        raise LevelError(f"it has {len(players)} players; one is needed")
    if not boxes or boxes.bit_count() != targets.bit_count():
        raise LevelError(
            f"it has {boxes.bit_count()} boxes and {targets.bit_count()} targets; as many of both are needed"
        )
    if boxes == targets:
        raise LevelError("every box is on a target already")
    return Level(tuple(rows), tuple(cells), targets, boxes, players[0])


def draw(
    rows: int, columns: int, cells: Sequence[tuple[int, int]], player: int, boxes: int, targets: int
) -> list[str]:
    """Rows of a level in the symbols of ``parse_level``; all but ``cells`` is wall."""
    grid = [[WALL] * columns for _ in range(rows)]
    for cell, (row, column) in enumerate(cells):
        target = bool(targets >> cell & 1)
        if boxes >> cell & 1:
            symbol = PLACED if target else BOX
        elif cell == player:
            symbol = STANDING if target else PLAYER
        else:
            symbol = TARGET if target else FLOOR
        grid[row][column] = symbol
    return ["".join(row) for row in grid]


def _mask(symbols: Sequence[str], wanted: set[str]) -> int:
    return sum(1 << i for i, symbol in enumerate(symbols) if symbol in wanted)
