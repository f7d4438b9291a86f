"""Tasksets and environments of verifiers, loaded by its own loaders."""

from __future__ import annotations

import importlib
import sys
from itertools import islice
from typing import TYPE_CHECKING, Any

from turnpoint.envs.protocol import EnvDataError

if TYPE_CHECKING:
    from turnpoint.envs.adapters.verifiers.settings import VerifiersSettings


def load_environment(settings: VerifiersSettings) -> Any:
    """The environment with its taskset. Raises ``EnvDataError`` if it cannot be loaded or has several agents."""
    from verifiers.v1.configs.agent import agent_config_fields
    from verifiers.v1.configs.env import EnvConfig
    from verifiers.v1.utils.generic import concrete_type
    from verifiers.v1.utils.loaders import environment_class

    try:
        name, environment_id = _top_level(settings.taskset), _top_level(settings.env_id)
        found = environment_class(name, environment_id)
        from verifiers.v1.env import Env

        config_class = concrete_type(found, EnvConfig, origin=Env) or EnvConfig
        taskset = {"id": name, **settings.taskset_options}
        config = config_class.model_validate(
            {"taskset": taskset, "id": environment_id, **settings.env_options}
        )
        environment = found(config)
    except Exception as error:
        raise EnvDataError(
            f"env.taskset is {settings.taskset}, which verifiers cannot load with env.taskset_options "
            f"{settings.taskset_options}: {type(error).__name__}: {error}"
        ) from error
    agents = list(agent_config_fields(environment.config))
    if len(agents) != 1:
        raise EnvDataError(
            f"the environment of {settings.taskset} has the agents {', '.join(agents)}; only environments of one agent "
            "can be played"
        )
    return environment


def _top_level(name: str) -> str:
    """A module inside a package under a name of its own: the library finds only top-level ones."""
    if "." not in name or "/" in name:
        return name
    alias = name.replace(".", "_").lower()
    sys.modules.setdefault(alias, importlib.import_module(name))
    return alias


class TaskList:
    """The tasks of a taskset by number, read as far as they are asked for."""

    def __init__(self, taskset: Any) -> None:
        self.infinite = bool(taskset.INFINITE)
        self._source = iter(taskset)
        self._read: list[Any] = []

    def __len__(self) -> int:
        if not self.infinite:
            self._read.extend(self._source)
        return len(self._read)

    def __getitem__(self, number: int) -> Any:
        if number >= len(self._read):
            self._read.extend(islice(self._source, number + 1 - len(self._read)))
        if number >= len(self._read):
            raise IndexError(f"the taskset has {len(self._read)} tasks; there is no task {number}")
        return self._read[number]
