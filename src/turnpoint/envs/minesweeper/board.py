"""A board with its mines: what opening a cell shows, and how many more opens are needed. Sets of cells are bit
masks; cells are numbered row by row."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator


@functools.lru_cache(maxsize=64)
def neighbours(rows: int, columns: int) -> tuple[int, ...]:
    """For every cell the set of the up to eight cells around it."""
    return tuple(
        sum(
            1 << r * columns + c
            for r in range(max(row - 1, 0), min(row + 2, rows))
            for c in range(max(column - 1, 0), min(column + 2, columns))
            if (r, c) != (row, column)
        )
        for row in range(rows)
        for column in range(columns)
    )


def bits(cells: int) -> Iterator[int]:
    """Cells of a set in ascending order."""
    while cells:
        low = cells & -cells
        yield low.bit_length() - 1
        cells ^= low


def as_set(cells: Iterable[int]) -> int:
    """The set of some cells."""
    return functools.reduce(lambda found, cell: found | 1 << cell, cells, 0)


class Board:
    """An immutable board. Opening a cell without mines around it opens all cells around it too, and so on."""

    def __init__(self, rows: int, columns: int, mines: int) -> None:
        """``mines``: set of mined cells."""
        self.rows, self.columns, self.mines = rows, columns, mines
        self.cells = rows * columns
        self.safe = (1 << self.cells) - 1 & ~mines
        around = neighbours(rows, columns)
        self.numbers = tuple((mines & around[cell]).bit_count() for cell in range(self.cells))
        """Mines around every cell."""
        empty = as_set(cell for cell in bits(self.safe) if not self.numbers[cell])
        self.opens, self.unit = self._regions(empty, around)
        self._units = tuple(dict.fromkeys(unit for unit in self.unit if unit))

    def _regions(self, empty: int, around: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        opens = [1 << cell for cell in range(self.cells)]
        unit = [0] * self.cells
        for cell in bits(self.safe):
            if empty >> cell & 1:
                if unit[cell]:
                    continue
                inside = _spread(cell, empty, around)
                shown = inside | functools.reduce(int.__or__, (around[c] for c in bits(inside)))
                for member in bits(inside):
                    opens[member], unit[member] = shown, inside
            elif not around[cell] & empty:
                unit[cell] = 1 << cell
        return tuple(opens), tuple(unit)

    def opens_needed(self, opened: int) -> int:
        """Least number of opens that show every safe cell, given the set of opened ones.

        It is the number of *units* that are not open: connected areas of empty cells (no mine around), and single
        numbered cells with no empty cell around. This is exact: one open shows at most one unit, as a cascade runs
        through one area and its border only; every unit must be shown by an open of its own, as a numbered
        cell of it is in no area's border and an area opens from within only; and once all units are shown, so
        is every other safe cell, as it borders an area.
        """
        return sum(1 for unit in self._units if not unit & opened)

    def useful(self, opened: int) -> list[int]:
        """Cells that lower ``opens_needed`` by one; those that show most first."""
        cells = [cell for cell in range(self.cells) if self.unit[cell] and not self.unit[cell] & opened]
        return sorted(cells, key=lambda cell: (-(self.opens[cell] & ~opened).bit_count(), cell))


def _spread(cell: int, within: int, around: tuple[int, ...]) -> int:
    """The connected part of ``within`` that holds ``cell``."""
    found = edge = 1 << cell
    while edge:
        reach = functools.reduce(int.__or__, (around[c] for c in bits(edge)))
        edge = reach & within & ~found
        found |= edge
    return found
