"""Random levels: each seed gives one, solvable within the given number of moves."""

from __future__ import annotations

import random
from itertools import islice

from turnpoint.envs.protocol import EnvDataError
from turnpoint.envs.seeded import split_of
from turnpoint.envs.sokoban.level import Level, draw, neighbours, parse_level
from turnpoint.envs.sokoban.settings import SokobanSettings
from turnpoint.envs.sokoban.solver import solvable, unpack

GENERATOR_VERSION = 1
"""Raised whenever a seed gives another level."""
_MOST_ROOMS = 2_000


def draw_level(settings: SokobanSettings, split: str, seed: int) -> tuple[Level, int]:
    """Level of a seed, and the moves of its shortest solution.

    The length of the solution is drawn first, each with the same chance, then rooms with targets until one has
    states of that length, then one of these. Raises ``EnvDataError`` if thousands of rooms have none.
    """
    # A text seeds by its bytes, so that every process draws the same; hash() would not.
    rng = random.Random(f"sokoban {GENERATOR_VERSION}/{settings.level_seed}/{split}/{seed}")
    moves = rng.randint(*settings.solution_moves)
    for _ in range(_MOST_ROOMS):
        rows = _draw_room(settings, rng, moves)
        if rows is not None and split_of("\n".join(rows)) == split:
            return parse_level(rows), moves
    raise EnvDataError(
        f"sokoban: {_MOST_ROOMS} rooms of {settings.rows} x {settings.columns} with {settings.boxes} boxes had no "
        f"level that takes {moves} moves; lower solution_moves, or change the size or inner_walls"
    )


def _draw_room(settings: SokobanSettings, rng: random.Random, moves: int) -> list[str] | None:
    """Rows of a random room with a state ``moves`` from its end, no box placed yet; None if it has none."""
    inner = [(r, c) for r in range(1, settings.rows - 1) for c in range(1, settings.columns - 1)]
    walls = set(rng.sample(inner, rng.randint(*settings.inner_walls)))
    cells = tuple(cell for cell in inner if cell not in walls)
    targets = sum(1 << cell for cell in rng.sample(range(len(cells)), settings.boxes))
    layer = next(islice(solvable(neighbours(cells), targets), moves, None), [])
    states = [state for state in layer if not unpack(state)[1] & targets]
    if not states:
        return None
    player, boxes = unpack(rng.choice(states))
    return draw(settings.rows, settings.columns, cells, player, boxes, targets)
