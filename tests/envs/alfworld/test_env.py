"""What an episode of the real engine makes of an engine that crashes; a stand-in answers for it."""

from __future__ import annotations

from typing import Any

import pytest

from turnpoint.envs.alfworld.env import AlfworldEnv
from turnpoint.envs.alfworld.settings import AlfworldSettings
from turnpoint.envs.child import ChildCrashed
from turnpoint.records import Task


class Engine:
    """Crashes so many times at a step, then answers."""

    def __init__(self, crashes: int) -> None:
        self.left, self.generation = crashes, 1
        self.called: list[str] = []

    def call(self, method: str, *arguments: Any) -> Any:
        self.called.append(method)
        if method == "step" and self.left:
            self.left -= 1
            raise ChildCrashed("signal 11")
        return {"text": method, "admissible": ["look", "help"], "won": False, "key": "k", "known": True}


def started(crashes: int) -> tuple[AlfworldEnv, Engine]:
    engine = Engine(crashes)
    env = AlfworldEnv(AlfworldSettings(), engine, lambda task: "game")  # type: ignore[arg-type]
    env.reset(Task("t", "alfworld", data={"sha256": "0"}))
    return env, engine


def test_a_call_that_crashes_is_asked_again() -> None:
    env, engine = started(1)
    assert env.step("look").observation.text == "step"
    assert engine.called == ["keep", "start", "step", "step"]


def test_a_second_crash_ends_the_episode() -> None:
    env, _ = started(2)
    with pytest.raises(ChildCrashed):
        env.step("look")
