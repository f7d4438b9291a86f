"""Settings of the TextArena adapter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, field_validator

from turnpoint.envs.adapters.loading import is_path
from turnpoint.envs.adapters.settings import AdapterSettings

if TYPE_CHECKING:
    from turnpoint.envs.adapters.suite import AdapterSuite
    from turnpoint.envs.adapters.textarena.game import ArenaGame


class TextArenaSettings(AdapterSettings):
    """A game of TextArena for one or two players, in text as the library writes it."""

    extra: ClassVar[str] = "textarena"
    packages: ClassVar[tuple[str, ...]] = ("textarena",)
    distributions: ClassVar[tuple[str, ...]] = ("textarena",)
    data: ClassVar[str] = "comes with the package; games with English words also need nltk's data"

    kind: Literal["textarena"] = "textarena"
    game_id: str = "GuessTheNumber-v0"
    """Registered game without ``-raw`` or ``-train``."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Passed to the game when it is made, as ``max_number: 10``."""
    player: Literal[0, 1] = 0
    """Which player the agent is; 0 begins in most games."""
    opponent: str = "random"
    """The other player: ``random``: one of ``opponent_actions`` that the game accepts, drawn from the task's seed;
    ``fixed``: these actions in turn; ``module:function``: your own, of (observation, random.Random)."""
    opponent_actions: list[str] = Field(default_factory=list)
    """Actions of the other player, as the game reads them; empty = known ones, for the games that have any."""
    brackets: bool = True
    """An action without square brackets gets some, as the library's own wrapper does."""
    success_reward: float = 1.0
    """Final reward from which an episode counts as a success."""

    @field_validator("opponent")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in ("random", "fixed") and not is_path(value):
            raise ValueError("opponent must be random or fixed, or name a function as module:function")
        return value

    @field_validator("game_id")
    @classmethod
    def _plain(cls, value: str) -> str:
        if value.endswith(("-raw", "-train")):
            raise ValueError("game_id must be without -raw or -train, which only change how a game is shown")
        return value

    def game(self) -> ArenaGame:
        """One copy of the game."""
        from turnpoint.envs.adapters.textarena.game import ArenaGame

        return ArenaGame(self)

    def build(self) -> AdapterSuite:
        """The suite; raises ``EnvDataError`` if the game does not exist or cannot be played here."""
        from turnpoint.envs.adapters.textarena.suite import build_suite

        self.require()
        return build_suite(self)
