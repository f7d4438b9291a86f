"""The corridor game with an engine in a process of its own that goes wrong on purpose: for ``test_faults``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from turnpoint.envs.child import Child, lost_processes
from turnpoint.records import Observation, Step
from turnpoint.testing import ToyEnv, ToySettings, ToySuite

SECOND_TURN = 1
HUNG_AFTER = 0.4
ANSWERS: dict[str, Any] = {
    "no step": None,
    "no number": "a lot",
    "not finite": float("nan"),
    "no text": 7,
    "exit": SystemExit("bye"),
}


class FaultySettings(ToySettings):
    """What goes wrong on the second turn of every 19th task."""

    kind: str = "faulty_env:FaultySettings"
    wrong: Literal["engine hangs", "engine crashes", "engine leaks", "no step", "no number", "not finite",
                   "no text", "exit"] = "engine hangs"  # fmt: skip

    def build(self) -> FaultySuite:
        return FaultySuite(self)


class FaultyEnv(ToyEnv):
    """Asks its engine before every step."""

    def __init__(self, settings: FaultySettings, engine: Child, copy: int) -> None:
        super().__init__(settings, copy)
        self.engine, self.wrong = engine, settings.wrong

    def step(self, action: str) -> Step:
        strikes = self.state.turn == SECOND_TURN and self._task_number % 19 == 0
        if self.wrong.startswith("engine"):
            hangs = strikes and self.wrong == "engine hangs"  # other calls have all the time they need
            self.engine.call("work", self.wrong if strikes else "", seconds=HUNG_AFTER if hangs else None)
        step = super().step(action)
        if not strikes or self.wrong.startswith("engine"):
            return step
        answer = ANSWERS[self.wrong]
        if isinstance(answer, BaseException):
            raise answer
        if self.wrong == "no text":
            return replace(step, observation=Observation(answer))
        return answer if self.wrong == "no step" else replace(step, reward=answer)


class FaultySuite(ToySuite):
    """All copies share one engine."""

    settings: FaultySettings

    def __init__(self, settings: FaultySettings) -> None:
        self.engine = Child("faulty_engine:Engine", 60.0, resident_mb=160)
        super().__init__(settings)

    def make(self) -> FaultyEnv:
        self._copies += 1
        return FaultyEnv(self.settings, self.engine, self._copies)

    def counters(self) -> dict[str, float]:
        return lost_processes([self.engine])
