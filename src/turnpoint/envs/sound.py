"""An environment whose answers are checked: what is no answer ends one episode, and never a run."""

from __future__ import annotations

import math
import numbers
from dataclasses import replace
from typing import Any

from turnpoint.envs.protocol import Env, EnvError, Knowledge
from turnpoint.records import Observation, Step, Task

_SHOWN = 100


class Nonsense(EnvError):
    """An environment answered with something that is no answer."""


class SoundEnv:
    """The environment within, call by call; raises ``Nonsense`` where an answer is not what the contract says."""

    def __init__(self, inner: Env) -> None:
        self.inner = inner
        self.capabilities = inner.capabilities

    def reset(self, task: Task) -> Observation:
        """See ``Env``."""
        return sound_observation(self.inner.reset(task))

    def step(self, action: str) -> Step:
        """See ``Env``."""
        return sound_step(self.inner.step(action))

    def snapshot(self) -> Any:
        """See ``Env``."""
        return self.inner.snapshot()

    def restore(self, snapshot: Any) -> Observation:
        """See ``Env``."""
        return sound_observation(self.inner.restore(snapshot))

    def distance(self) -> int | None:
        """See ``Env``."""
        found: Any = self.inner.distance()
        if found is not None and (not _whole(found) or found < 0):
            raise Nonsense(f"distance() gave {_short(found)}, neither a whole number of turns nor None")
        return found  # type: ignore[no-any-return]

    def best_actions(self, knowledge: Knowledge = "full") -> list[str]:
        """See ``Env``."""
        found: Any = self.inner.best_actions(knowledge)
        if not isinstance(found, list) or not all(isinstance(action, str) for action in found):
            raise Nonsense(f"best_actions() gave {_short(found)}, no list of texts")
        return found

    def close(self) -> None:
        """See ``Env``."""
        self.inner.close()


def sound_observation(found: Any) -> Observation:
    """The same observation. Raises ``Nonsense``."""
    if not isinstance(found, Observation):
        raise Nonsense(f"the environment answered with {_short(found)}, which is no Observation")
    if not isinstance(found.text, str):
        raise Nonsense(f"the observation's text is {_short(found.text)}, no text")
    listed: Any = found.admissible
    if listed is not None and not (isinstance(listed, tuple) and all(isinstance(a, str) for a in listed)):
        raise Nonsense(f"the admissible actions are {_short(listed)}, neither a tuple of texts nor None")
    if found.state_key is not None and not isinstance(found.state_key, str):
        raise Nonsense(f"the state key is {_short(found.state_key)}, neither a text nor None")
    return found


def sound_step(found: Any) -> Step:
    """The same step, its reward and score plain floats. Raises ``Nonsense``."""
    if not isinstance(found, Step):
        raise Nonsense(f"the environment answered with {_short(found)}, which is no Step")
    sound_observation(found.observation)
    reward: Any = found.reward
    if isinstance(reward, bool) or not isinstance(reward, numbers.Real) or not math.isfinite(reward):
        raise Nonsense(f"the reward is {_short(reward)}, no finite number")
    for name, allowed in (
        ("done", (True, False)),
        ("success", (True, False, None)),
        ("effective", (True, False)),
    ):
        value: Any = getattr(found, name)
        if not (value is None or isinstance(value, bool)) or value not in allowed:
            raise Nonsense(f"'{name}' is {_short(value)}, not one of {', '.join(map(str, allowed))}")
    score: Any = found.score
    if score is not None:
        if isinstance(score, bool) or not isinstance(score, numbers.Real) or not 0 <= float(score) <= 1:
            raise Nonsense(f"the score is {_short(score)}, neither a number from 0 to 1 nor None")
        score = float(score)
    return replace(found, reward=float(reward), score=score)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… (a {type(value).__name__})"
