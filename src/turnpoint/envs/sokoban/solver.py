"""Exact distances of every solvable state of a level, in moves, by one search backwards from its solutions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import comb

from turnpoint.envs.sokoban.level import Level, LevelError

Neighbours = Sequence[Sequence[int]]

MOST_STATES = 300_000
"""Largest number of states that is searched: about two seconds and 30 MB."""


_BITS = 10
"""Bits of the player's cell in a state; ``MOST_STATES`` allows fewer than 2**10 cells."""
_PLAYER = (1 << _BITS) - 1


def count_states(cells: int, boxes: int) -> int:
    """Ways to place the boxes and the player on ``cells`` cells."""
    return comb(cells, boxes) * max(cells - boxes, 0)


class Solver:
    """Least number of moves to the end from every state, solvable or not.

    All states are solved at once: a level is played by many episodes, and each of their turns asks for
    dozens of successors.
    """

    def __init__(self, level: Level) -> None:
        """Raises ``LevelError`` if the level has more than ``MOST_STATES`` states."""
        states = count_states(len(level.cells), level.boxes.bit_count())
        if states > MOST_STATES:
            raise LevelError(
                f"it has {states} states and at most {MOST_STATES} can be searched; use fewer boxes or cells"
            )
        self._moves = {
            state: moves for moves, layer in enumerate(solvable(level.next, level.targets)) for state in layer
        }

    def moves(self, player: int, boxes: int) -> int | None:
        """Least number of moves that put every box on a target; None if nothing does."""
        return self._moves.get(boxes << _BITS | player)

    @property
    def solvable_states(self) -> int:
        """How many states can be solved."""
        return len(self._moves)


def solvable(around: Neighbours, targets: int) -> Iterator[list[int]]:
    """Layers of packed states (see ``unpack``) that are 0, 1, 2, … moves from a solution, in a fixed order.

    Breadth first over predecessors: the player steps back, with or without pulling the box before him.
    ``around[cell][move]`` is the cell reached by a move, -1 for none; ``targets`` is a set of cells.
    """
    ways = _ways_back(around)
    layer = [targets << _BITS | player for player in range(len(around)) if not targets >> player & 1]
    found = set(layer)
    while layer:
        yield layer
        following = []
        for state in layer:
            boxes = state >> _BITS
            for back, back_bit, box, pulled in ways[state & _PLAYER]:
                if boxes & back_bit:
                    continue
                before = boxes << _BITS | back
                if before not in found:
                    found.add(before)
                    following.append(before)
                if boxes & box:
                    before = (boxes ^ pulled) << _BITS | back
                    if before not in found:
                        found.add(before)
                        following.append(before)
        layer = following


def unpack(state: int) -> tuple[int, int]:
    """Cell of the player and set of the boxes."""
    return state & _PLAYER, state >> _BITS


def _ways_back(around: Neighbours) -> list[list[tuple[int, int, int, int]]]:
    """For every cell of the player and every move that can have led there: the cell before, its bit, the bit of
    a box that the move may have pushed, and the bits that change when it is pulled back."""
    ways = []
    for cell, near in enumerate(around):
        here = []
        for move, ahead in enumerate(near):
            back = near[move ^ 1]  # moves come in opposite pairs: up down, left right
            if back >= 0:
                box = 1 << ahead if ahead >= 0 else 0
                here.append((back, 1 << back, box, box | 1 << cell))
        ways.append(here)
    return ways
