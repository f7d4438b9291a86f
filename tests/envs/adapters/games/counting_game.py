"""A game for the tests of what all adapters share, and the ways in which it goes wrong. Imported by path."""

from __future__ import annotations

import os
import random
import time
from typing import Any, ClassVar

from turnpoint.envs.adapters.game import Shown
from turnpoint.envs.adapters.settings import AdapterSettings
from turnpoint.envs.adapters.suite import AdapterSuite

GROWN: list[bytes] = []


class CountingSettings(AdapterSettings):
    """Count up to three; ``draw`` shows a number of the global stream. The word ``trip`` sets off the fault."""

    data: ClassVar[str] = "none"

    kind: str = "counting_game:CountingSettings"
    fault: str = "none"

    def game(self) -> CountingGame:
        return CountingGame(self.fault)

    def build(self) -> AdapterSuite:
        return AdapterSuite(
            self,
            self.capabilities,
            instructions="Say up, draw or stay.",
            instruction="count to three.",
            actions=("up", "stay"),
        )


class CountingGame:
    def __init__(self, fault: str) -> None:
        self.fault, self.count = fault, 0
        if fault == "no start":
            raise RuntimeError("there is no board")

    def reset(self, data: dict[str, Any]) -> Shown:
        self.count = 0
        return Shown("You are at 0.")

    def step(self, action: str) -> Shown:
        if action == "trip":
            return self.trip()
        if action == "draw":
            return Shown(f"You draw {random.randint(0, 10**9)}.")
        if action != "up":
            return Shown("Nothing happens.", effective=False)
        self.count += 1
        return Shown(f"You are at {self.count}.", float(self.count == 3), self.count == 3, self.count == 3)

    def trip(self) -> Any:
        print("noise on standard output")
        if self.fault == "hang":
            time.sleep(60)
        if self.fault == "crash":
            os._exit(7)
        if self.fault == "raise":
            raise KeyError("no such cell")
        if self.fault == "grow":
            GROWN.append(bytes(1) * (400 << 20))
        if self.fault == "eat":
            raise MemoryError
        return {
            "nan": Shown("ok", float("nan")),
            "word": Shown("ok", "one"),
            "bytes": Shown(b"raw"),
            "maybe": Shown("ok", 0.0, "perhaps"),
            "long": Shown("x" * 300_000),
            "grow": Shown("ok"),
        }[self.fault]

    def close(self) -> None:
        return
