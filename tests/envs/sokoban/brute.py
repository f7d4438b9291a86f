"""Sokoban in the plainest way: sets of coordinates and forward search, to check the engine against."""

from __future__ import annotations

from collections import deque

STEPS = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
Cell = tuple[int, int]
State = tuple[Cell, frozenset[Cell]]


class Plain:
    """A level read from its rows."""

    def __init__(self, rows: list[str]) -> None:
        at = {(r, c): symbol for r, row in enumerate(rows) for c, symbol in enumerate(row)}
        self.floor = {cell for cell, symbol in at.items() if symbol != "#"}
        self.targets = frozenset(cell for cell, symbol in at.items() if symbol in "O*S")
        self.boxes = frozenset(cell for cell, symbol in at.items() if symbol in "X*")
        self.player = next(cell for cell, symbol in at.items() if symbol in "PS")

    def start(self) -> State:
        return self.player, self.boxes

    def move(self, state: State, name: str) -> State:
        """State after a move; the same if it is blocked."""
        (row, column), boxes = state
        down, right = STEPS[name]
        ahead, beyond = (row + down, column + right), (row + 2 * down, column + 2 * right)
        if ahead not in self.floor:
            return state
        if ahead in boxes:
            if beyond not in self.floor or beyond in boxes:
                return state
            boxes = boxes - {ahead} | {beyond}
        return ahead, boxes

    def won(self, state: State) -> bool:
        return state[1] == self.targets

    def moves(self, state: State) -> int | None:
        """Least number of moves to the end, by search from ``state``."""
        seen, queue = {state}, deque([(state, 0)])
        while queue:
            here, depth = queue.popleft()
            if self.won(here):
                return depth
            for name in STEPS:
                after = self.move(here, name)
                if after not in seen:
                    seen.add(after)
                    queue.append((after, depth + 1))
        return None

    def turns(self, state: State, per_turn: int) -> int | None:
        """Least number of turns to the end, by search over whole turns: up to ``per_turn`` moves each."""
        seen, layer, depth = {state}, [state], 0
        while layer:
            if any(self.won(here) for here in layer):
                return depth
            depth += 1
            following = []
            for here in layer:
                for after in self.after_turn(here, per_turn):
                    if after not in seen:
                        seen.add(after)
                        following.append(after)
            layer = following
        return None

    def after_turn(self, state: State, per_turn: int) -> set[State]:
        """All states one turn can lead to; a solved level takes no further move."""
        reached, layer = {state}, {state}
        for _ in range(per_turn):
            layer = {self.move(here, name) for here in layer if not self.won(here) for name in STEPS}
            reached |= layer
        return reached
