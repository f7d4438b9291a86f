"""Random levels: each seed gives one, solvable within the given number of moves."""

from __future__ import annotations

import random

from turnpoint.envs.protocol import EnvDataError
from turnpoint.envs.seeded import split_of
from turnpoint.envs.sokoban.level import BOX, FLOOR, PLAYER, TARGET, WALL, Level, parse_level
from turnpoint.envs.sokoban.settings import SokobanSettings
from turnpoint.envs.sokoban.solver import Solver

GENERATOR_VERSION = 1
"""Raised whenever a seed gives another level."""
_MOST_DRAWS = 20_000


def draw_level(settings: SokobanSettings, split: str, seed: int) -> tuple[Level, int]:
    """Level of a seed, and the moves of its shortest solution.

    Raises ``EnvDataError`` if thousands of draws gave no level that the settings allow.
    """
    # A text seeds by its bytes, so that every process draws the same; hash() would not.
    draw = random.Random(f"sokoban {GENERATOR_VERSION}/{settings.level_seed}/{split}/{seed}")
    least, most = settings.solution_moves
    for _ in range(_MOST_DRAWS):
        rows = _draw_rows(settings, draw)
        if split_of("\n".join(rows)) != split:
            continue
        level = parse_level(rows)
        moves = Solver(level).moves(level.player, level.boxes)
        if moves is not None and least <= moves <= most:
            return level, moves
    raise EnvDataError(
        f"sokoban: {_MOST_DRAWS} draws of a {settings.rows} x {settings.columns} level with {settings.boxes} boxes "
        f"gave none that is solved in {least} to {most} moves; widen solution_moves, or change size or inner_walls"
    )


def _draw_rows(settings: SokobanSettings, draw: random.Random) -> list[str]:
    rows, columns, boxes = settings.rows, settings.columns, settings.boxes
    inner = [(r, c) for r in range(1, rows - 1) for c in range(1, columns - 1)]
    walls = draw.randint(*settings.inner_walls)
    places = draw.sample(inner, walls + 2 * boxes + 1)
    grid = [[WALL] * columns for _ in range(rows)]
    for row, column in inner:
        grid[row][column] = FLOOR
    symbols = [PLAYER, *[BOX] * boxes, *[TARGET] * boxes, *[WALL] * walls]
    for (row, column), symbol in zip(places, symbols, strict=True):
        grid[row][column] = symbol
    return ["".join(row) for row in grid]
