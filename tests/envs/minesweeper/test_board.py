"""Cascades and least numbers of opens equal brute force; probabilities equal counting every layout."""

from __future__ import annotations

import random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from turnpoint.envs.minesweeper.board import Board, as_set, bits
from turnpoint.envs.minesweeper.posterior import layouts, shown_numbers

from .brute import Plain, counts


def draw_plain(rows: int, columns: int, mines: int, seed: int) -> tuple[Plain, Board]:
    cells = Plain(rows, columns, set()).cells
    mined = set(random.Random(seed).sample(cells, mines))
    return Plain(rows, columns, mined), Board(rows, columns, as_set(r * columns + c for r, c in mined))


def to_set(opened: frozenset[tuple[int, int]], columns: int) -> int:
    return as_set(row * columns + column for row, column in opened)


def open_some(plain: Plain, seed: int, most: int) -> frozenset[tuple[int, int]]:
    """Open cells after a few random safe opens, at least one."""
    rng, opened = random.Random(seed), frozenset[tuple[int, int]]()
    safe = sorted(set(plain.cells) - plain.mines)
    for _ in range(rng.randint(1, most)):
        opened = plain.open(opened, rng.choice(safe))
    return opened


SIZES = st.tuples(st.integers(2, 4), st.integers(2, 4), st.integers(1, 3))


@given(SIZES, st.integers(0, 10**6))
@settings(max_examples=100, deadline=None)
def test_opening_equals_a_plain_cascade(size: tuple[int, int, int], seed: int) -> None:
    assume(size[2] < size[0] * size[1])
    plain, board = draw_plain(*size, seed)
    opened = open_some(plain, seed, 3)
    for row, column in sorted(set(plain.cells) - plain.mines):
        cell = row * board.columns + column
        assert board.numbers[cell] == plain.number((row, column))
        expected = to_set(plain.open(opened, (row, column)), board.columns)
        assert to_set(opened, board.columns) | board.opens[cell] == expected


@given(SIZES, st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_opens_needed_equal_search(size: tuple[int, int, int], seed: int) -> None:
    assume(size[2] < size[0] * size[1])
    plain, board = draw_plain(*size, seed)
    opened = open_some(plain, seed, 2)
    shown = to_set(opened, board.columns)
    needed = plain.opens_needed(opened)
    assert board.opens_needed(shown) == needed
    lowering = [
        row * board.columns + column
        for row, column in sorted(set(plain.cells) - plain.mines - opened)
        if plain.opens_needed(plain.open(opened, (row, column))) == needed - 1
    ]
    assert sorted(board.useful(shown)) == lowering


def test_opens_needed_on_the_full_size() -> None:
    checked = 0
    for seed in range(40):
        plain, board = draw_plain(6, 6, 3, seed)
        opened = open_some(plain, seed, 2)
        needed = board.opens_needed(to_set(opened, 6))
        if needed <= 3:
            assert plain.opens_needed(opened) == needed
            checked += 1
    assert checked > 10


def test_a_known_board() -> None:
    # * 1 0      The empty area on the right shows all but the lower left corner of the safe cells.
    # 1 1 0
    # 0 0 0
    board = Board(3, 3, 0b1)
    assert board.numbers == (0, 1, 0, 1, 1, 0, 0, 0, 0)
    assert board.opens[2] == board.safe
    assert board.opens_needed(0) == 1
    assert board.useful(0) == [2, 5, 6, 7, 8]
    two = Board(1, 5, 0b100)  # _ 1 * 1 _
    assert two.opens_needed(0) == 2
    assert two.useful(0) == [0, 4]
    assert two.opens_needed(two.opens[0]) == 1
    assert Board(1, 3, 0b010).opens_needed(0) == 2


@given(SIZES, st.integers(0, 10**6))
@settings(max_examples=100, deadline=None)
def test_probabilities_equal_counting_layouts(size: tuple[int, int, int], seed: int) -> None:
    assume(size[2] < size[0] * size[1])
    plain, board = draw_plain(*size, seed)
    opened = open_some(plain, seed, 2)
    check_posterior(plain, board, opened)


@pytest.mark.parametrize("seed", range(6))
def test_probabilities_on_the_full_size(seed: int) -> None:
    plain, board = draw_plain(6, 6, 3, seed)
    check_posterior(plain, board, open_some(plain, seed, 2))


def check_posterior(plain: Plain, board: Board, opened: frozenset[tuple[int, int]]) -> None:
    shown = to_set(opened, board.columns)
    mines = board.mines.bit_count()
    found = layouts(board.rows, board.columns, mines).posterior(shown_numbers(shown, board.numbers))
    possible = plain.consistent(opened)
    mined = counts(possible)
    assert found.layouts == len(possible)
    assert [found.mines[r * board.columns + c] for r, c in plain.cells] == [
        mined[cell] for cell in plain.cells
    ]
    assert sum(found.mines) == mines * found.layouts
    for row, column in plain.cells:
        spots = {(row, column), *plain.around((row, column))}
        empty = sum(not spots & layout for layout in possible)
        assert found.empty[row * board.columns + column] == empty
    assert all(found.probability(cell) == 0 for cell in bits(shown))


def test_numbers_that_no_layout_shows_are_refused() -> None:
    with pytest.raises(ValueError, match="no layout"):
        layouts(3, 3, 1).posterior(((0, 2),))
