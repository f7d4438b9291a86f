"""A small taskset of verifiers that is always there: sums, one reply each.

``turnpoint envs check verifiers`` plays it where no other taskset is named.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

__all__ = ["SumsTaskset"]  # noqa: F822 (made by __getattr__)


def _make_class() -> type:
    import verifiers.v1 as vf

    class SumsData(vf.TaskData):  # type: ignore[misc]
        answer: str

    class SumsTask(vf.Task[SumsData]):  # type: ignore[misc]
        @vf.reward  # type: ignore[untyped-decorator]
        async def right(self, trace: Any) -> float:
            """1 if the reply ends with the sum."""
            return float(trace.last_reply.rstrip(".").split(" ")[-1] == self.data.answer)

    class SumsTaskset(vf.Taskset[SumsTask]):  # type: ignore[misc]
        """A hundred sums of two numbers."""

        def load(self) -> Iterator[SumsTask]:
            draw = random.Random("sums")
            for _ in range(100):
                one, two = draw.randint(10, 99), draw.randint(10, 99)
                yield SumsTask(SumsData(prompt=f"What is {one} + {two}?", answer=str(one + two)))

    return SumsTaskset


def __getattr__(name: str) -> Any:
    if name == "SumsTaskset":
        made = globals()[name] = _make_class()
        return made
    raise AttributeError(f"module {__name__} has no attribute {name}")
