"""What the agent reads: rules, the grid, and what its last moves did."""

from __future__ import annotations

from collections.abc import Iterable

from turnpoint.envs.sokoban.level import MOVES, PLACED, draw
from turnpoint.envs.sokoban.rules import Game, Played, State, solved, spell
from turnpoint.envs.sokoban.settings import SokobanSettings

TASK = "Push every box onto a target."
BEGIN = "The level begins."
MOVED = "You moved {}."
BLOCKED = "Blocked: {}."
SOLVED = "All boxes are on targets."
EXHAUSTED = "No moves are left."
UNSOLVABLE = "The level can no longer be solved."
ENDED = "The level is over."
MOVES_LEFT = "Moves left: {}."
COORDINATES = "Player {}. Boxes {}. Targets {}."
PLACED_SIGN = "√"
"""How a box on a target looks unless ``ascii`` is set."""


def instructions(settings: SokobanSettings) -> str:
    """Rules for the prompt."""
    sign = PLACED if settings.ascii else PLACED_SIGN
    example = spell((0, 0, 3)[: settings.moves_per_turn])
    some = "one move" if settings.moves_per_turn == 1 else f"one to {settings.moves_per_turn} moves"
    comma = "" if settings.moves_per_turn == 1 else " separated by commas"
    end = " The level is lost when it can no longer be solved." if settings.end_when_unsolvable else ""
    return (
        f"You push boxes onto targets in a room seen from above. Signs of the grid: # wall, _ floor, O target, "
        f"X box, {sign} box on a target, P you, S you on a target. You move up, down, left or right by one cell. "
        f"Walking into a box pushes it one cell on, if the cell behind it is free of walls and boxes; boxes "
        f"cannot be pulled, so a box in a corner stays there. Every turn, give {some}{comma}, for example: "
        f"{example}. A blocked move is wasted. You have {settings.max_turns} turns and {settings.move_budget} "
        f"moves.{end}"
    )


def misread(settings: SokobanSettings) -> str:
    """Answer to an action that is none."""
    return f"Not understood. Give 1 to {settings.moves_per_turn} of: {', '.join(MOVES)}."


def feedback(game: Game, played: Played) -> str:
    """What the moves of a turn did, and how the level ended if it did."""
    parts = [MOVED.format(spell(played.made))] if played.made else []
    if played.blocked:
        parts.append(BLOCKED.format(spell(played.blocked)))
    state = played.state
    if solved(game, state):
        parts.append(SOLVED)
    elif state.over:
        parts.append(EXHAUSTED if state.used >= game.settings.move_budget else UNSOLVABLE)
    return " ".join(parts)


def show(game: Game, state: State, said: str) -> str:
    """The observation: ``said``, the grid, and what the settings add to it."""
    settings, level, lines = game.settings, game.level, [said]
    size = len(level.rows), len(level.rows[0])
    for row in draw(*size, level.cells, state.player, state.boxes, level.targets):
        text = " ".join(row)
        lines.append(text if settings.ascii else text.replace(PLACED, PLACED_SIGN))
    if settings.coordinates:
        everything = (1 << state.player, state.boxes, game.level.targets)
        lines.append(COORDINATES.format(*(_places(game, cells) for cells in everything)))
    if settings.budget_binds:
        lines.append(MOVES_LEFT.format(settings.move_budget - state.used))
    return "\n".join(lines)


def _places(game: Game, cells: int) -> str:
    """1-based row and column of every cell of a set."""
    places = [place for i, place in enumerate(game.level.cells) if cells >> i & 1]
    return ", ".join(f"{row + 1} {column + 1}" for row, column in places)


def vocabulary_texts(settings: SokobanSettings) -> Iterable[str]:
    """Strings that together hold every word and sign of the environment."""
    yield from (TASK, BEGIN, MOVED.format(""), BLOCKED.format(""), SOLVED, EXHAUSTED, UNSOLVABLE, ENDED)
    yield from (misread(settings), ", ".join(MOVES), instructions(settings), "# _ O X P S")
    yield PLACED if settings.ascii else PLACED_SIGN
    if settings.coordinates:
        yield COORDINATES.format("", "", "")
        yield _numbers(1, max(settings.rows, settings.columns))
    if settings.budget_binds:
        yield MOVES_LEFT.format(_numbers(0, settings.move_budget))


def _numbers(first: int, last: int) -> str:
    return " ".join(str(number) for number in range(first, last + 1))
