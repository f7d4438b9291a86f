"""Exact distances of every solvable state of a level, in moves, by one search backwards from its solutions."""

from __future__ import annotations

from math import comb

from turnpoint.envs.sokoban.level import Level, LevelError

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
        self.level = level
        self._moves = _search(level)

    def moves(self, player: int, boxes: int) -> int | None:
        """Least number of moves that put every box on a target; None if nothing does."""
        return self._moves.get(boxes << _BITS | player)

    @property
    def solvable_states(self) -> int:
        """How many states can be solved."""
        return len(self._moves)


def _search(level: Level) -> dict[int, int]:
    """Breadth first over predecessors: the player steps back, with or without pulling the box before him."""
    ways = _ways_back(level)
    layer = [level.targets << _BITS | p for p in range(len(level.cells)) if not level.targets >> p & 1]
    found = dict.fromkeys(layer, 0)
    distance = 0
    while layer:
        distance += 1
        following = []
        for state in layer:
            boxes = state >> _BITS
            for back, back_bit, pull in ways[state & _PLAYER]:
                if boxes & back_bit:
                    continue
                before = boxes << _BITS | back
                if before not in found:
                    found[before] = distance
                    following.append(before)
                if boxes & pull[0]:
                    before = (boxes ^ pull[1]) << _BITS | back
                    if before not in found:
                        found[before] = distance
                        following.append(before)
        layer = following
    return found


def _ways_back(level: Level) -> list[list[tuple[int, int, tuple[int, int]]]]:
    """For every cell of the player, by direction of the move that led there: the cell before and its bit, and
    of the box that the move may have pushed the bit after it and the bits that change."""
    ways = []
    for cell, around in enumerate(level.next):
        here = []
        for move, ahead in enumerate(around):
            back = around[move ^ 1]  # moves come in opposite pairs: up down, left right
            if back < 0:
                continue
            pull = (1 << ahead, 1 << ahead | 1 << cell) if ahead >= 0 else (0, 0)
            here.append((back, 1 << back, pull))
        ways.append(here)
    return ways
