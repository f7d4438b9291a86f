"""Whether an answer equals a reference answer: ``math-verify``, in a process that may hang or die."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Literal

from turnpoint.envs.child import Child, ChildCrashed, ChildHung
from turnpoint.envs.protocol import EnvError

Reason = Literal["correct", "wrong", "no answer", "too long", "not readable", "time-out", "crash", "error"]
_LONGEST = 1000
"""Characters of an answer; competition answers are short, and longer ones are attacks or rambling."""
_PAIRS_KEPT = 4096


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check found."""

    correct: bool
    reason: Reason


class Checker:
    """Checks answers one after another; nothing that an answer holds is raised."""

    def __init__(self, seconds: float, memory_mb: int) -> None:
        # Caches of the library grow: a process that has used half of its memory is made anew.
        self.child = Child(
            "turnpoint.envs.math.checker:Service",
            seconds,
            memory_mb=memory_mb,
            resident_mb=max(1, memory_mb // 2),
        )
        self.counts: Counter[Reason] = Counter()
        """Verdicts by reason."""
        self._counting = threading.Lock()
        # What is raised is not kept: another time the same answer may be checked in time.
        self._compare: Callable[[str, str], Reason] = lru_cache(_PAIRS_KEPT)(
            partial(self.child.call, "compare")
        )

    def readable(self, reference: str) -> bool:
        """Whether a reference answer can be parsed; raises ``EnvError`` if the checker does not work at all."""
        return bool(self.child.call("readable", reference))

    def check(self, reference: str, answer: str | None) -> Verdict:
        """Whether ``answer`` equals ``reference``, and why not."""
        reason = self._reason(reference, answer)
        with self._counting:
            self.counts[reason] += 1
        return Verdict(reason == "correct", reason)

    def _reason(self, reference: str, answer: str | None) -> Reason:
        if answer is None or not answer.strip():
            return "no answer"
        if len(answer) > _LONGEST:
            return "too long"
        try:
            return self._compare(reference, answer)
        except ChildHung:
            return "time-out"
        except ChildCrashed:
            return "crash"
        except EnvError:
            return "error"

    def close(self) -> None:
        """End the process."""
        self.child.close()


def boxed_answer(reply: str) -> str | None:
    """What stands in the last complete ``\\boxed{...}`` (or ``\\fbox``) of a reply; linear in its length."""
    answer: str | None = None
    at = 0
    while (found := _next_box(reply, at)) is not None:
        depth, end = 1, found
        while end < len(reply) and depth:
            depth += {"{": 1, "}": -1}.get(reply[end], 0) if reply[end - 1] != "\\" else 0
            end += 1
        if depth:
            break
        answer, at = reply[found : end - 1], end
    return answer


def _next_box(reply: str, at: int) -> int | None:
    places = [place + len(name) for name in ("\\boxed{", "\\fbox{") if (place := reply.find(name, at)) >= 0]
    return min(places, default=None)


class Service:
    """What runs in the process; ``math-verify`` keeps its own clocks besides, by signals of the main thread."""

    def __init__(self) -> None:
        import logging

        import math_verify

        logging.disable(logging.CRITICAL)
        self.lib: Any = math_verify
        self.compare(
            "1", "\\frac12"
        )  # what the library sets up at its first use is not the time of an answer

    def readable(self, reference: str) -> bool:
        """Whether a reference answer can be parsed."""
        return bool(self._parse(reference))

    def compare(self, reference: str, answer: str) -> str:
        """``correct``, ``wrong`` or ``not readable``."""
        wanted, given = self._parse(reference), self._parse(answer)
        if not given:
            return "not readable"
        return "correct" if self.lib.verify(wanted, given) else "wrong"

    def _parse(self, text: str) -> list[Any]:
        text = text if "$" in text or "\\boxed" in text else f"\\boxed{{{text}}}"
        parsed: list[Any] = self.lib.parse(text)
        return parsed
