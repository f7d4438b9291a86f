"""Settings of the Gymnasium adapter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, field_validator

from turnpoint.envs.adapters.loading import is_path
from turnpoint.envs.adapters.settings import AdapterSettings

if TYPE_CHECKING:
    from turnpoint.envs.adapters.gymnasium.game import GymGame
    from turnpoint.envs.adapters.gymnasium.suite import GymSuite


class GymnasiumSettings(AdapterSettings):
    """Any registered environment, or a class of your own, whose observations and actions are or can be made text."""

    extra: ClassVar[str] = "gymnasium"
    packages: ClassVar[tuple[str, ...]] = ("gymnasium",)
    distributions: ClassVar[tuple[str, ...]] = ("gymnasium",)
    data: ClassVar[str] = "none needed: id=FrozenLake-v1, or any other id or module:Class"

    kind: Literal["gymnasium"] = "gymnasium"
    id: str = "FrozenLake-v1"
    """Registered id, ``module:id`` that is registered by importing ``module``, or ``module:Class``."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Passed to the environment when it is made, as ``is_slippery: false``."""
    observation: str = "auto"
    """``text``: the observation is a text; ``ansi``: the environment draws itself; ``values``: the observation as JSON;
    ``module:function``: your own, of (environment, observation, info). ``auto``: the first of these that it can."""
    actions: list[str] | str = Field(default_factory=list)
    """Names of a discrete space's actions in their order, or ``module:function`` that makes an action of
    (environment, text) and gives None for a text that is none. Empty: the text itself for a Text space, known names for
    Gymnasium's own toy environments, numbers for others."""
    show_info: list[str] = Field(default_factory=list)
    """Keys of ``info`` that are written under every observation."""
    success_return: float | Literal["terminated"] | None = None
    """Sum of rewards from which an ended episode counts as a success; ``terminated``: one that was not cut off does.
    Unset: the threshold the environment is registered with, else ``info['is_success']``, else any sum above 0."""

    @field_validator("observation")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in ("auto", "text", "ansi", "values") and not is_path(value):
            raise ValueError(
                "observation must be auto, text, ansi or values, or name a function as module:function"
            )
        return value

    @field_validator("actions")
    @classmethod
    def _distinct(cls, value: list[str] | str) -> list[str] | str:
        if isinstance(value, str):
            if not is_path(value):
                raise ValueError("actions must be a list of names, or name a function as module:function")
            return value
        names = [name.strip().lower() for name in value]
        if len(set(names)) != len(names) or "" in names:
            raise ValueError(f"actions must be different names, and none empty; they are {value}")
        return value

    def game(self) -> GymGame:
        """One copy of the environment."""
        from turnpoint.envs.adapters.gymnasium.game import GymGame

        return GymGame(self)

    def build(self) -> GymSuite:
        """The suite; raises ``EnvDataError`` if the environment cannot be made or played in text."""
        from turnpoint.envs.adapters.gymnasium.suite import GymSuite

        self.require()
        return GymSuite(self)
