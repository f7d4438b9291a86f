"""Kinds of environments: built-in, from entry point group ``turnpoint.envs``, or ``module:attr``."""

from __future__ import annotations

from turnpoint.config import Registry, Settings
from turnpoint.envs.protocol import EnvSuite


class EnvSettings(Settings):
    """Base of every ``env`` section; subclasses add fields and build the suite."""

    kind: str
    """Which environment."""

    def build(self) -> EnvSuite:
        """The environment with its tasks; raises ``EnvDataError`` if its data is missing or unusable."""
        raise NotImplementedError(f"{type(self).__name__} must define build()")


env_registry: Registry[EnvSettings] = Registry(
    "turnpoint.envs",
    EnvSettings,
    {"household": "turnpoint.envs.household.settings:HouseholdSettings"},
)
