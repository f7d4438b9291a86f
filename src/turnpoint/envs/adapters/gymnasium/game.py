"""One Gymnasium environment, in the process that plays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from turnpoint.envs.adapters.game import Nonsense, Shown, number
from turnpoint.envs.adapters.gymnasium.text import as_json, make_read, make_show
from turnpoint.envs.adapters.gymnasium.toys import Success, toy_of
from turnpoint.envs.adapters.loading import is_path, load
from turnpoint.envs.protocol import EnvDataError

if TYPE_CHECKING:
    from turnpoint.envs.adapters.gymnasium.settings import GymnasiumSettings

REFUSED = "This is no action here. Nothing happens."


def make_env(settings: GymnasiumSettings) -> Any:
    """The environment, drawing itself as text where it can. Raises ``EnvDataError`` if it cannot be made."""
    import gymnasium

    options = dict(settings.options)
    try:
        own = _class_of(settings.id)
        if own is not None:
            env = own(**options)
        else:
            drawn = settings.observation in ("auto", "ansi") and "ansi" in _render_modes(settings.id)
            mode = {"render_mode": "ansi"} if drawn else {}
            env = gymnasium.make(settings.id, disable_env_checker=True, **(mode | options))
    except EnvDataError:
        raise
    except Exception as error:
        raise EnvDataError(
            f"env.id is {settings.id}, which cannot be made with env.options {options}: {error}"
        ) from error
    if not isinstance(env, gymnasium.Env):
        raise EnvDataError(
            f"env.id is {settings.id}, which makes a {type(env).__name__}, not a gymnasium.Env"
        )
    return env


def _class_of(identifier: str) -> Any:
    """What ``module:Class`` names; None for registered ids, also those with a module in front."""
    import gymnasium

    if not is_path(identifier) or identifier.partition(":")[2] in gymnasium.registry:
        return None
    return load(identifier, "env.id")


def _render_modes(identifier: str) -> list[str]:
    import gymnasium

    spec = gymnasium.spec(identifier)
    maker = spec.entry_point
    found = gymnasium.envs.registration.load_env_creator(maker) if isinstance(maker, str) else maker
    return list(getattr(found, "metadata", {}).get("render_modes", ()))


class GymGame:
    """Seeds, five-tuples and spaces on one side, text on the other."""

    def __init__(self, settings: GymnasiumSettings) -> None:
        self.env = make_env(settings)
        toy = toy_of(settings.id)
        self.toy = toy
        self._show = make_show(settings.observation, self.env, toy)
        self._read, self.names = make_read(settings.actions, toy.actions if toy else (), self.env)
        self._info = settings.show_info
        self._threshold = self._find_threshold(settings)
        self._sum = 0.0
        self._now = Shown("")

    def _find_threshold(self, settings: GymnasiumSettings) -> Success:
        if settings.success_return is not None:
            return settings.success_return
        if self.toy and self.toy.success is not None:
            return self.toy.success
        spec = self.env.spec
        return None if spec is None or spec.reward_threshold is None else float(spec.reward_threshold)

    def reset(self, data: Mapping[str, Any]) -> Shown:
        """Reset with the task's seed."""
        observation, info = _pair(self.env.reset(seed=int(data["seed"]) % 2**31))
        self._sum = 0.0
        return self._answer(observation, info, 0.0)

    def step(self, action: str) -> Shown:
        """Step with the action that the text names; any other text changes nothing."""
        chosen = self._read(self.env, action)
        if chosen is None:
            return self._now._replace(text=f"{REFUSED}\n{self._now.text}", reward=0.0, effective=False)
        outcome = self.env.step(chosen)
        if not isinstance(outcome, tuple) or len(outcome) != 5:
            raise Nonsense(f"step gave {type(outcome).__name__} of {_length(outcome)}, not five values")
        observation, given, terminated, truncated, info = outcome
        reward = number(given)
        self._sum += reward
        ended, cut = bool(terminated), bool(truncated)
        success = self._success(info if isinstance(info, dict) else {}, ended) if ended or cut else None
        return self._answer(observation, info, reward, success)

    def _answer(self, observation: Any, info: Any, reward: float, success: bool | None = None) -> Shown:
        info = info if isinstance(info, dict) else {}
        text = self._show(self.env, observation, info)
        if isinstance(text, str):
            lines = [text, *(f"{key}: {as_json(info[key])}" for key in self._info if key in info)]
            text = "\n".join(lines)
        self._now = Shown(text, reward, success is not None, success, admissible=self.names or None)
        return self._now

    def _success(self, info: dict[str, Any], ended: bool) -> bool:
        if self._threshold == "terminated":
            return ended
        if self._threshold is not None:
            return self._sum >= self._threshold
        told = info.get("is_success", info.get("success"))
        return bool(told) if told is not None else self._sum > 0.0

    def close(self) -> None:
        """Close the environment."""
        self.env.close()


def _pair(outcome: Any) -> tuple[Any, Any]:
    if not isinstance(outcome, tuple) or len(outcome) != 2:
        raise Nonsense(f"reset gave {type(outcome).__name__} of {_length(outcome)}, not (observation, info)")
    return outcome


def _length(value: Any) -> int:
    return len(value) if hasattr(value, "__len__") else 1
