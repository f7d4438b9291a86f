"""One skyrl-gym environment at a time, in the process that plays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from turnpoint.envs.adapters.game import Nonsense, Shown, number
from turnpoint.envs.adapters.loading import is_path, load
from turnpoint.envs.protocol import EnvDataError, EnvError

if TYPE_CHECKING:
    from turnpoint.envs.adapters.skyrl.settings import SkyrlGymSettings


class SkyGame:
    """Conversations on one side, text on the other."""

    def __init__(self, settings: SkyrlGymSettings) -> None:
        """Raises ``EnvDataError`` if there is no environment of that name."""
        from skyrl_gym.envs.registration import registry

        self._settings = settings
        self._class = load(settings.id, "env.id") if is_path(settings.id) else None
        if self._class is None and settings.id not in registry:
            raise EnvDataError(
                f"env.id is {settings.id}, which skyrl-gym does not have; it has {', '.join(registry)}"
            )
        self._env: Any = None
        self._sum, self._turns = 0.0, 0

    def reset(self, data: Mapping[str, Any]) -> Shown:
        """Make the environment of a row. Raises ``EnvError`` if it refuses the row."""
        self.close()
        row = dict(data["row"])
        prompt = row.pop("prompt")
        row.setdefault("max_turns", self._settings.max_turns)
        try:
            self._env = self._make(row)
        except (AssertionError, KeyError, NotImplementedError, FileNotFoundError, TypeError) as error:
            raise EnvError(
                f"'{self._settings.id}' refuses the row: {type(error).__name__}: {error}"
            ) from error
        self._sum, self._turns = 0.0, 0
        outcome = self._env.init(prompt)
        if not isinstance(outcome, tuple) or len(outcome) != 2:
            raise Nonsense(f"init gave a {type(outcome).__name__}, not (conversation, metadata)")
        return Shown(spoken(outcome[0]))

    def _make(self, extras: dict[str, Any]) -> Any:
        import skyrl_gym
        from omegaconf import DictConfig

        arguments = {"env_config": DictConfig(self._settings.options), "extras": extras}
        if self._class is not None:
            return self._class(**arguments)
        return skyrl_gym.make(self._settings.id, **arguments)

    def step(self, action: str) -> Shown:
        """Hand the reply over; observations of other roles than the agent's are what it sees."""
        if self._env is None:
            raise EnvError("no row has been started yet")
        outcome = self._env.step(action)
        if not isinstance(outcome, Mapping) or not {"observations", "reward", "done"} <= set(outcome):
            raise Nonsense(f"step gave a {type(outcome).__name__} without observations, reward and done")
        self._turns += 1
        reward = number(outcome["reward"])
        self._sum += reward
        success = self._sum >= self._settings.success_reward
        return Shown(spoken(outcome["observations"]), reward, outcome["done"], success)

    def close(self) -> None:
        """Close the row's environment."""
        env, self._env = self._env, None
        if env is not None:
            env.close()


def spoken(messages: Any) -> Any:
    """What messages say to the agent, as one text; anything else unchanged, for whoever checks it."""
    if not isinstance(messages, list | tuple):
        return messages
    parts = []
    for message in messages:
        content = message.get("content") if isinstance(message, Mapping) else None
        if not isinstance(content, str):
            return message
        if message.get("role") != "assistant":
            parts.append(content)
    return "\n\n".join(parts)
