"""What an adapter has to write: a game that starts from a task and answers actions. It is never trusted."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from turnpoint.envs.protocol import EnvError


class Nonsense(EnvError):
    """An environment's answer is none: no text, a reward that is no number, an ending that is neither yes nor no."""


class Shown(NamedTuple):
    """What a game answers, before anybody has checked it."""

    text: Any
    reward: Any = 0.0
    done: Any = False
    success: Any = None
    """Set on the last answer; None there counts as a failure."""
    effective: bool = True
    """False if the action was refused."""
    admissible: tuple[str, ...] | None = None


class Game(Protocol):
    """One playable copy; lives in one process and one thread at a time."""

    def reset(self, data: Mapping[str, Any]) -> Shown:
        """Start the task with this ``data`` (of ``Task.data``)."""

    def step(self, action: str) -> Shown:
        """Execute any text; one that cannot be an action is answered with ``effective=False``."""

    def close(self) -> None:
        """Release whatever it holds."""


def checked(shown: Shown, longest: int) -> Shown:
    """The same answer in plain Python values. Raises ``Nonsense`` that says what is wrong with it."""
    if not isinstance(shown.text, str):
        raise Nonsense(f"the observation is a {type(shown.text).__name__}, not a text")
    if len(shown.text) > longest:
        raise Nonsense(
            f"the observation has {len(shown.text)} characters; at most {longest} are taken "
            "(env.max_characters)"
        )
    done = _flag("done", shown.done)
    success = None if shown.success is None else _flag("success", shown.success)
    admissible = None if shown.admissible is None else tuple(map(str, shown.admissible))
    return Shown(
        shown.text,
        number(shown.reward),
        done,
        bool(success) if done else None,
        bool(shown.effective),
        admissible,
    )


def number(reward: Any) -> float:
    """A reward as a plain number, also NumPy's; none is 0. Raises ``Nonsense`` for anything else."""
    if reward is None:  # libraries that give no reward before the end
        return 0.0
    if hasattr(reward, "item") and getattr(reward, "size", 1) == 1:
        reward = reward.item()
    if not isinstance(reward, numbers.Real):
        raise Nonsense(f"the reward is a {type(reward).__name__}, not a number")
    if not math.isfinite(reward):
        raise Nonsense(f"the reward is {float(reward)}")
    return float(reward)


def _flag(name: str, value: Any) -> bool:
    if hasattr(value, "item") and getattr(value, "size", 1) == 1:
        value = value.item()
    if not isinstance(value, bool):
        raise Nonsense(f"'{name}' is a {type(value).__name__}, neither true nor false")
    return value
