"""Minesweeper in the plainest way: sets of coordinates, to check the engine and its oracles against."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, product

Cell = tuple[int, int]


class Plain:
    """A field with its mines; cells are 0-based (row, column)."""

    def __init__(self, rows: int, columns: int, mines: set[Cell]) -> None:
        self.size = rows, columns
        self.cells = list(product(range(rows), range(columns)))
        self.mines = mines

    def around(self, cell: Cell) -> list[Cell]:
        row, column = cell
        near = [(r, c) for r, c in self.cells if abs(r - row) <= 1 and abs(c - column) <= 1]
        return [other for other in near if other != cell]

    def number(self, cell: Cell) -> int:
        return sum(other in self.mines for other in self.around(cell))

    def open(self, opened: frozenset[Cell], cell: Cell) -> frozenset[Cell]:
        """Open cells after opening a safe one."""
        found, waiting = set(opened), [cell]
        while waiting:
            here = waiting.pop()
            if here in found:
                continue
            found.add(here)
            if self.number(here) == 0:
                waiting += self.around(here)
        return frozenset(found)

    def opens_needed(self, opened: frozenset[Cell]) -> int:
        """Least number of opens to the end, by search over sets of open cells."""
        safe = frozenset(set(self.cells) - self.mines)
        seen, layer, depth = {opened}, [opened], 0
        while safe not in layer:
            depth += 1
            layer = [
                after
                for here in layer
                for after in {self.open(here, cell) for cell in safe - here}
                if after not in seen and not seen.add(after)  # type: ignore[func-returns-value]
            ]
        return depth

    def consistent(self, opened: frozenset[Cell]) -> list[set[Cell]]:
        """All layouts of as many mines that show the same numbers in the open cells."""
        shown = {cell: self.number(cell) for cell in opened}
        found = []
        for layout in combinations([cell for cell in self.cells if cell not in opened], len(self.mines)):
            other = Plain(*self.size, set(layout))
            if all(other.number(cell) == number for cell, number in shown.items()):
                found.append(set(layout))
        return found


def counts(layouts: list[set[Cell]]) -> Counter[Cell]:
    """How many layouts have a mine in each cell."""
    return Counter(cell for layout in layouts for cell in layout)
