"""The backward search equals brute force, in moves and in turns, on drawn and on hand-made levels."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnpoint.envs.sokoban.level import Level, LevelError, parse_level
from turnpoint.envs.sokoban.rules import Game, turns_needed
from turnpoint.envs.sokoban.rules import State as Place
from turnpoint.envs.sokoban.settings import SokobanSettings
from turnpoint.envs.sokoban.solver import Solver, count_states

from .brute import Plain, State


@st.composite
def levels(draw: st.DrawFn) -> list[str]:
    """Any small level, solvable or not, with and without a wall around it."""
    rows, columns = draw(st.integers(2, 5)), draw(st.integers(2, 5))
    cells = [(r, c) for r in range(rows) for c in range(columns)]
    boxes = draw(st.integers(1, 2 if len(cells) >= 6 else 1))
    rng = random.Random(draw(st.integers(0, 10**6)))
    walls = rng.randint(0, max(0, len(cells) - 2 * boxes - 1) // 2)
    symbols = ["P"] + ["X"] * boxes + ["O"] * boxes + ["#"] * walls
    grid = [["_"] * columns for _ in range(rows)]
    for (row, column), symbol in zip(rng.sample(cells, len(symbols)), symbols, strict=True):
        grid[row][column] = symbol
    return ["".join(row) for row in grid]


def to_masks(level: Level, state: State) -> tuple[int, int]:
    number = {cell: i for i, cell in enumerate(level.cells)}
    return number[state[0]], sum(1 << number[box] for box in state[1])


@given(levels(), st.integers(0, 10**6))
@settings(max_examples=150, deadline=None)
def test_moves_equal_forward_search(rows: list[str], seed: int) -> None:
    plain, level = Plain(rows), parse_level(rows)
    solver, rng, state = Solver(level), random.Random(seed), plain.start()
    for _ in range(8):
        assert solver.moves(*to_masks(level, state)) == plain.moves(state)
        state = plain.move(state, rng.choice(["up", "down", "left", "right"]))


@given(levels(), st.integers(1, 4))
@settings(max_examples=80, deadline=None)
def test_turns_equal_search_over_whole_turns(rows: list[str], per_turn: int) -> None:
    plain, level = Plain(rows), parse_level(rows)
    setup = SokobanSettings(moves_per_turn=per_turn, max_turns=200, move_budget=900)
    game = Game(level, setup)
    player, boxes = to_masks(level, plain.start())
    assert turns_needed(game, Place(player, boxes)) == plain.turns(plain.start(), per_turn)


def test_every_state_of_one_level() -> None:
    rows = ["_O_X", "_XP_", "O___"]
    plain, level = Plain(rows), parse_level(rows)
    solver, solvable = Solver(level), 0
    for first in plain.floor:
        for second in plain.floor - {first}:
            for player in plain.floor - {first, second}:
                state = (player, frozenset({first, second}))
                moves = plain.moves(state)
                assert solver.moves(*to_masks(level, state)) == moves
                solvable += first < second and moves is not None
    assert solvable == solver.solvable_states
    assert 0 < solvable < count_states(12, 2)


def test_a_box_in_a_corner_is_hopeless() -> None:
    level = parse_level(["X__", "_PO", "___"])
    assert Solver(level).moves(level.player, level.boxes) is None


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([], "common length"),
        (["PXO", "__"], "common length"),
        (["PXO?"], "'\\?' means nothing"),
        (["_XO_"], "0 players"),
        (["PXOP"], "2 players"),
        (["P_O_"], "0 boxes and 1 targets"),
        (["P___"], "0 boxes and 0 targets"),
        (["PXXO"], "2 boxes and 1 targets"),
        (["P_*_"], "on a target already"),
    ],
)
def test_levels_that_cannot_be_played_are_refused(rows: list[str], reason: str) -> None:
    with pytest.raises(LevelError, match=reason):
        parse_level(rows)


def test_a_level_with_too_many_states_is_refused() -> None:
    rows = ["_" * 20] * 18 + ["P" + "X" * 3 + "O" * 3 + "_" * 13]
    with pytest.raises(LevelError, match="states"):
        Solver(parse_level(rows))
