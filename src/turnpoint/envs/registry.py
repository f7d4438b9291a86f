"""Kinds of environments: built-in, from entry point group ``turnpoint.envs``, or ``module:attr``."""

from __future__ import annotations

from typing import Any, ClassVar

from turnpoint.config import Registry, Settings
from turnpoint.envs.protocol import Capabilities, EnvSuite


class EnvSettings(Settings):
    """Base of every ``env`` section; subclasses add fields and build the suite."""

    capabilities: ClassVar[Capabilities]
    """What the environment can do, known without building it."""
    extra: ClassVar[str] = ""
    """Optional dependency group it needs (``pip install turnpoint[extra]``)."""
    data: ClassVar[str] = "none needed"
    """Which data it plays, for the list of environments."""

    kind: str
    """Which environment."""

    @classmethod
    def describe(cls) -> dict[str, Any]:
        """Abilities and needs, as plain JSON."""
        able = cls.capabilities
        return {
            "snapshots": able.snapshots,
            "replay": able.deterministic,
            "oracle": able.oracle,
            "admissible": able.admissible,
            "extra": cls.extra,
            "data": cls.data,
        }

    def build(self) -> EnvSuite:
        """The environment with its tasks; raises ``EnvDataError`` if its data is missing or unusable."""
        raise NotImplementedError(f"{type(self).__name__} must define build()")


env_registry: Registry[EnvSettings] = Registry(
    "turnpoint.envs",
    EnvSettings,
    {
        "household": "turnpoint.envs.household.settings:HouseholdSettings",
        "sokoban": "turnpoint.envs.sokoban.settings:SokobanSettings",
        "minesweeper": "turnpoint.envs.minesweeper.settings:MinesweeperSettings",
    },
)
