"""Who plays against the agent."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from typing import Any

from turnpoint.envs.adapters.loading import is_path, load
from turnpoint.envs.protocol import EnvDataError

Rival = Callable[[Any, str, random.Random], str]
"""(game, observation, stream of the task) to an action."""

KNOWN: dict[str, tuple[str, ...]] = {
    "TicTacToe": tuple(f"[{cell}]" for cell in range(9)),
    "WildTicTacToe": tuple(f"[{mark} {cell}]" for mark in "XO" for cell in range(9)),
    "ConnectFour": tuple(f"[col {column}]" for column in range(7)),
    "Nim": tuple(f"[{pile} {count}]" for pile in range(5) for count in range(1, 8)),
    "KuhnPoker": ("[check]", "[bet]", "[fold]", "[call]"),
    "PigDice": ("[roll]", "[hold]"),
    "IteratedRockPaperScissors": ("[rock]", "[paper]", "[scissors]"),
    "IteratedMatchingPennies": ("[heads]", "[tails]"),
    "IteratedPrisonersDilemma": ("[cooperate]", "[defect]"),
}
"""Actions of games by the name before the version."""


def make_rival(chosen: str, actions: Sequence[str], game_id: str) -> Rival:
    """The opponent. Raises ``EnvDataError`` where it has nothing to play."""
    if is_path(chosen):
        function = load(chosen, "env.opponent")
        return lambda game, observation, draw: str(function(observation, draw))
    listed = list(actions) or list(KNOWN.get(game_id.partition("-v")[0], ()))
    if not listed:
        raise EnvDataError(
            f"the opponent's actions in {game_id} are not known; set env.opponent_actions, or env.opponent to a "
            "module:function"
        )
    if chosen == "fixed":
        return _Fixed(listed)
    return lambda game, observation, draw: _random(game, listed, draw)


class _Fixed:
    """Actions in turn, from the first one in every episode."""

    def __init__(self, actions: list[str]) -> None:
        self._actions = actions
        self._stream: random.Random | None = None
        self._at = 0

    def __call__(self, game: Any, observation: str, draw: random.Random) -> str:
        if draw is not self._stream:  # every episode brings a stream of its own
            self._stream, self._at = draw, 0
        action = self._actions[self._at % len(self._actions)]
        self._at += 1
        return action


def _random(game: Any, actions: list[str], draw: random.Random) -> str:
    """The first of the shuffled actions that a copy of the game accepts; the first if it accepts none."""
    shuffled = draw.sample(actions, len(actions))
    return next((action for action in shuffled if accepts(game, action)), shuffled[0])


def accepts(game: Any, action: str) -> bool:
    """Whether a game takes an action of the player to move; tried on a copy."""
    trial = copy.deepcopy(game)
    before = random.getstate()
    try:
        trial.step(action=action)
    except Exception:
        return False
    finally:
        random.setstate(before)
    return not was_refused(game.state, trial.state)


def was_refused(before: Any, after: Any) -> bool:
    """Whether the move between two states was invalid."""
    player = before.current_player_id
    if after.game_info[player].get("invalid_move"):
        return True
    return bool(getattr(after, "error_count", 0) > getattr(before, "error_count", 0))
