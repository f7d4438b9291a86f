"""Moves, their rewards and endings: pure functions over immutable states."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

from turnpoint.envs.sokoban.level import MOVES, Level
from turnpoint.envs.sokoban.settings import SokobanSettings
from turnpoint.envs.sokoban.solver import Solver

_LONGEST_ACTION = 200
_OPTIONS_KEPT = 512


class Game:
    """A level with the rules it is played by and its solutions; shared by all copies that play it."""

    def __init__(self, level: Level, settings: SokobanSettings) -> None:
        """Raises ``LevelError`` if the level has too many states to be solved."""
        self.level = level
        self.settings = settings
        self.solver = Solver(level)
        # Episodes of one task meet the same states again and again, forks of a state always do.
        self.options = functools.lru_cache(maxsize=_OPTIONS_KEPT)(functools.partial(_options, self))


class State(NamedTuple):
    """All that changes while a level is played."""

    player: int
    boxes: int
    used: int = 0
    """Moves made, blocked ones included."""
    over: bool = False


class Played(NamedTuple):
    """What the moves of one turn did."""

    state: State
    reward: float
    made: tuple[int, ...]
    """Moves that changed something."""
    blocked: tuple[int, ...]
    """Moves that did not; they count and cost as much."""


class Option(NamedTuple):
    """A turn in which no move is blocked or left over, and the state after it."""

    moves: tuple[int, ...]
    state: State

    @property
    def action(self) -> str:
        """The turn as text."""
        return spell(self.moves)


def start(level: Level) -> State:
    """The first state."""
    return State(level.player, level.boxes)


def solved(game: Game, state: State) -> bool:
    """Whether every box is on a target."""
    return state.boxes == game.level.targets


def moves_needed(game: Game, state: State) -> int | None:
    """Least number of moves to the end; None if there is none or the level was lost.

    The move budget counts only where it can run out before the turns do. Elsewhere it is like the turn
    budget, which no distance knows, and equal boards have equal distances.
    """
    if state.over and not solved(game, state):
        return None
    moves = game.solver.moves(state.player, state.boxes)
    if moves is not None and game.settings.budget_binds and moves > game.settings.move_budget - state.used:
        return None
    return moves


def turns_needed(game: Game, state: State) -> int | None:
    """L(s): least number of turns to the end, with at most ``moves_per_turn`` = n moves in each.

    m moves fit into ceil(m / n) turns and into no fewer, so a shortest way in moves is one in turns.
    """
    moves = moves_needed(game, state)
    return None if moves is None else -(-moves // game.settings.moves_per_turn)


def play(game: Game, state: State, moves: Sequence[int]) -> Played:
    """Make ``moves`` one after the other until they or the game end."""
    settings = game.settings
    made: list[int] = []
    blocked: list[int] = []
    on = off = 0
    for move in moves:
        if state.over:
            break
        after = advance(game, state, move)
        (blocked if after[:2] == state[:2] else made).append(move)
        change = _placed(game, after) - _placed(game, state)
        on, off = on + (change > 0), off + (change < 0)
        state = after
    reward = settings.move_reward * (len(made) + len(blocked))
    reward += settings.on_target_reward * on + settings.off_target_reward * off
    if made and solved(game, state):
        reward += settings.success_reward
    return Played(state, reward, tuple(made), tuple(blocked))


def advance(game: Game, state: State, move: int) -> State:
    """State after one move; a blocked one only counts."""
    player, boxes = _push(game.level, state.player, state.boxes, move) or state[:2]
    after = State(player, boxes, state.used + 1)
    return after._replace(over=True) if _ends(game, after) else after


def options(game: Game, state: State) -> tuple[Option, ...]:
    """Every turn whose moves are all made: single moves first, then longer ones, each in the order of moves."""
    return game.options(state)


def _options(game: Game, state: State) -> tuple[Option, ...]:
    layer = [] if state.over else [Option((), state)]
    found: list[Option] = []
    for _ in range(game.settings.moves_per_turn):
        layer = [
            Option((*option.moves, move), advance(game, option.state, move))
            for option in layer
            if not option.state.over
            for move in range(len(MOVES))
            if _push(game.level, option.state.player, option.state.boxes, move) is not None
        ]
        found += layer
    return tuple(found)


def best_options(game: Game, state: State) -> list[Option]:
    """Options that lower ``turns_needed`` by one; those that leave the fewest moves first, then short ones."""
    now = turns_needed(game, state)
    if not now:
        return []
    ranked = [
        (left, len(option.moves), index, option)
        for index, option in enumerate(options(game, state))
        if (left := moves_needed(game, option.state)) is not None
        and turns_needed(game, option.state) == now - 1
    ]
    return [option for _, _, _, option in sorted(ranked)]


@functools.lru_cache(maxsize=65536)
def spell(moves: tuple[int, ...]) -> str:
    """Moves as an action."""
    return ", ".join(MOVES[move] for move in moves)


def parse(action: str, most: int) -> tuple[int, ...] | None:
    """Moves of an action in any case and spacing; None if it is not 1 to ``most`` moves separated by commas."""
    if len(action) > _LONGEST_ACTION * most:
        return None
    words = [word.strip() for word in action.lower().split(",")]
    if len(words) > most or any(word not in MOVES for word in words):
        return None
    return tuple(MOVES.index(word) for word in words)


def _push(level: Level, player: int, boxes: int, move: int) -> tuple[int, int] | None:
    """Player and boxes after a move; None if it is blocked."""
    ahead = level.next[player][move]
    if ahead < 0:
        return None
    if boxes >> ahead & 1:
        beyond = level.next[ahead][move]
        if beyond < 0 or boxes >> beyond & 1:
            return None
        boxes ^= 1 << ahead | 1 << beyond
    return ahead, boxes


def _placed(game: Game, state: State) -> int:
    return (state.boxes & game.level.targets).bit_count()


def _ends(game: Game, state: State) -> bool:
    """Solved, out of moves, or hopeless; as the player can step back, some move is possible in all other states."""
    if solved(game, state) or state.used >= game.settings.move_budget:
        return True
    return game.settings.end_when_unsolvable and moves_needed(game, state) is None
