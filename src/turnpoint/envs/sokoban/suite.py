"""Sokoban with its tasks: what the ``sokoban`` section of a run config builds."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from turnpoint.envs.protocol import EnvError
from turnpoint.envs.seeded import SeededSuite, seed_of
from turnpoint.envs.sokoban import rules, text
from turnpoint.envs.sokoban.env import SokobanEnv
from turnpoint.envs.sokoban.generator import GENERATOR_VERSION, draw_level
from turnpoint.envs.sokoban.level import LevelError, parse_level
from turnpoint.envs.sokoban.rules import Game
from turnpoint.envs.sokoban.settings import CAPABILITIES, SokobanSettings
from turnpoint.records import Task

_BOARD = ("rows", "columns", "boxes", "inner_walls", "solution_moves", "level_seed")
"""Settings that decide what a seed draws."""
_BAND = 5
_GAMES_KEPT = 128


class SokobanSuite(SeededSuite):
    """Generated levels. A task carries its level in ``data["level"]`` as rows of text, and so may a task of
    your own: any solvable level in the symbols of ``parse_level``."""

    name = "sokoban"
    capabilities = CAPABILITIES

    def __init__(self, settings: SokobanSettings) -> None:
        """Raises ``EnvDataError`` if the settings allow hardly any level."""
        self.settings = settings
        self.max_turns = settings.max_turns
        self.instructions = text.instructions(settings)
        self._games: OrderedDict[tuple[str, ...], Game] = OrderedDict()
        super().__init__(settings, self._task)

    def make(self) -> SokobanEnv:
        """A new playable copy; copies share solved levels."""
        return SokobanEnv(self._load)

    def header(self) -> dict[str, Any]:
        """Generator, board settings, their hash and counts."""
        board = {name: getattr(self.settings, name) for name in _BOARD}
        return self.header_of(GENERATOR_VERSION, "levels", board)

    def vocabulary_texts(self) -> Iterable[str]:
        """Every word and sign of the environment; each cell of the grid is a word of its own."""
        return text.vocabulary_texts(self.settings)

    def _task(self, split: str, number: int) -> Task:
        seed = seed_of(split, number)
        level, moves = draw_level(self.settings, split, seed)
        first = (moves - 1) // _BAND * _BAND + 1
        return Task(
            id=f"{split}-{number:05d}",
            env=self.name,
            instruction=text.TASK,
            type=f"moves_{first:02d}_{first + _BAND - 1:02d}",
            seed=seed,
            data={"level": list(level.rows)},
        )

    def _load(self, task: Task) -> Game:
        rows = task.data.get("level")
        if not isinstance(rows, list | tuple) or not all(isinstance(row, str) for row in rows):
            raise EnvError(
                f"task {task.id} is not a Sokoban task: it has no level (rows of text) in its data"
            )
        key = tuple(rows)
        game = self._games.pop(key, None) or _new_game(task, key, self.settings)
        if len(self._games) >= _GAMES_KEPT:
            self._games.popitem(last=False)
        self._games[key] = game
        return game


def _new_game(task: Task, rows: tuple[str, ...], settings: SokobanSettings) -> Game:
    try:
        game = Game(parse_level(rows), settings)
    except LevelError as error:
        raise EnvError(f"the level of task {task.id} cannot be played: {error}") from error
    if rules.moves_needed(game, rules.start(game.level)) is None:
        within = f" within move_budget ({settings.move_budget})" if settings.budget_binds else ""
        raise EnvError(f"the level of task {task.id} has no solution{within}; leave it out")
    return game
