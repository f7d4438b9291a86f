"""One game of TextArena, in the process that plays."""

from __future__ import annotations

import copy
import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from turnpoint.envs.adapters.game import Nonsense, Shown
from turnpoint.envs.adapters.textarena.rivals import Rival, make_rival
from turnpoint.envs.protocol import EnvDataError

if TYPE_CHECKING:
    from turnpoint.envs.adapters.textarena.settings import TextArenaSettings

_MOST_MOVES = 200
"""Of the opponent in a row."""
_LONGEST = 10_000
"""Characters of an action; games search it with regular expressions that take quadratic time."""


def make_game(settings: TextArenaSettings) -> Any:
    """The game without the library's wrappers. Raises ``EnvDataError`` if it cannot be made."""
    import textarena
    from textarena.envs.registration import ENV_REGISTRY

    name = settings.game_id
    if name not in ENV_REGISTRY:
        raise EnvDataError(f"env.game_id is {name}, which TextArena does not have")
    raw = f"{name}-raw" if f"{name}-raw" in ENV_REGISTRY else name
    try:
        game = textarena.make(raw, **settings.options)
    except LookupError as error:
        raise EnvDataError(
            f"{name} needs nltk's data ('words' and a tagger), which is not here; run nltk.download once, or choose "
            "another game"
        ) from error
    except Exception as error:
        raise EnvDataError(
            f"env.game_id is {name}, which cannot be made with env.options {settings.options}: "
            f"{type(error).__name__}: {error}"
        ) from error
    while hasattr(game, "env"):
        game = game.env
    return game


def count_players(game: Any, name: str) -> int:
    """1 or 2. Raises ``EnvDataError`` for games of more."""
    for players in (1, 2):
        try:
            game.reset(num_players=players, seed=0)
        except Exception:
            continue
        return players
    raise EnvDataError(f"{name} is not for one or two players; choose another game")


class ArenaGame:
    """Messages and moves on one side, text on the other."""

    def __init__(self, settings: TextArenaSettings) -> None:
        self._settings = settings
        self._untouched = make_game(settings)
        self.env = copy.deepcopy(self._untouched)
        self.players = count_players(self.env, settings.game_id)
        if self.players == 1 and settings.player:
            raise EnvDataError(f"env.player is 1, but {settings.game_id} has one player; set env.player to 0")
        self._rival: Rival | None = None
        if self.players == 2:
            self._rival = make_rival(settings.opponent, settings.opponent_actions, settings.game_id)
        self._draw = random.Random(0)

    def reset(self, data: Mapping[str, Any]) -> Shown:
        """Start with the task's seed; the opponent moves first where it does."""
        seed = int(data["seed"])
        self.env = copy.deepcopy(self._untouched)  # some games keep something from one reset to the next
        self.env.reset(num_players=self.players, seed=seed)
        self._draw = random.Random(f"opponent/{seed}")
        return self._answer(self._opponent(), refused=False)

    def step(self, action: str) -> Shown:
        """Move, and let the opponent move until it is the agent's turn again."""
        if self._settings.brackets and "[" not in action and "]" not in action:
            action = f"[{action}]"
        state = self.env.state
        errors = getattr(state, "error_count", 0)
        done = self._move(action[:_LONGEST])
        player = self._settings.player
        refused = (
            bool(state.game_info[player].get("invalid_move")) or getattr(state, "error_count", 0) > errors
        )
        if not done:
            done = self._opponent()
        return self._answer(done, refused=refused)

    def _move(self, action: str) -> bool:
        outcome = self.env.step(action=action)
        if not isinstance(outcome, tuple) or len(outcome) != 2:
            raise Nonsense(f"step gave a {type(outcome).__name__}, not (done, info)")
        return bool(outcome[0])

    def _opponent(self) -> bool:
        """Play the other side; True if the game is over."""
        for _ in range(_MOST_MOVES):
            player = self.env.state.current_player_id
            if player == self._settings.player:
                return False
            if self._rival is None:
                raise Nonsense(f"it is the turn of player {player}, but the game has one player")
            _, messages = self.env.get_observation()
            if self._move(self._rival(self.env, self._written(messages, player), self._draw)):
                return True
        raise Nonsense(f"the opponent moved {_MOST_MOVES} times in a row")

    def _answer(self, done: bool, *, refused: bool) -> Shown:
        player, state = self._settings.player, self.env.state
        state.current_player_id = player if done else state.current_player_id
        _, messages = self.env.get_observation()
        text = self._written(messages, player)
        if not done:
            return Shown(text, effective=not refused)
        rewards, info = self.env.close()
        reward = (rewards or {}).get(player, 0.0)
        reason = info.get(player, {}).get("reason")
        parts = [text, str(reason)] if reason and str(reason) not in text else [text]
        success = isinstance(reason, str | None) and float(reward) >= self._settings.success_reward
        return Shown("\n".join(filter(None, parts)), reward, True, success, effective=not refused)

    def _written(self, messages: Any, player: int) -> str:
        """New messages as the library's wrapper writes them, without the player's own moves."""
        names = self.env.state.role_mapping
        lines = []
        for sender, message, kind in messages:
            if sender == player and kind.name == "PLAYER_ACTION":
                continue
            lines.append(f"[{'GAME' if sender == -1 else names.get(sender, f'Player {sender}')}] {message}")
        return "\n".join(lines).strip()

    def close(self) -> None:
        """Games hold nothing outside of memory."""
