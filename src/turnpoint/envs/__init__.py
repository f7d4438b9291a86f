"""Environments: the contract, the registry of kinds, and the built-in ones."""

from turnpoint.envs.protocol import (
    Capabilities,
    Env,
    EnvDataError,
    EnvError,
    EnvSuite,
    Knowledge,
)
from turnpoint.envs.registry import EnvSettings, env_registry

__all__ = [
    "Capabilities",
    "Env",
    "EnvDataError",
    "EnvError",
    "EnvSettings",
    "EnvSuite",
    "Knowledge",
    "env_registry",
]
