"""What an assertion found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any


class NotSeen(Exception):
    """What an assertion is about did not occur, or the backend does not offer it; the message says why."""


@dataclass(frozen=True, slots=True)
class Assertion:
    """One assertion about a policy."""

    name: str
    ok: bool | None
    """None: it could not be put to the test; ``detail`` says why."""
    value: float
    """What was measured; nan where nothing was."""
    bound: float
    """Largest value that is right."""
    detail: str
    """What was measured, and where it failed what to look at."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values; a number that JSON has no word for becomes None."""
        plain = asdict(self)
        return plain | {
            name: plain[name] if abs(plain[name]) < float("inf") else None for name in ("value", "bound")
        }


@dataclass(frozen=True, slots=True)
class Measured:
    """What a check gives back: a number that must not be above its bound, and two sentences."""

    value: float
    bound: float
    said: str
    """What was measured."""
    look: str
    """What to look at if it is too large."""


Check = Callable[[Any], Measured]


def judged(name: str, check: Check, bench: Any) -> Assertion:
    """Run one check; whatever it raises is a finding, not the end of the suite."""
    nan = float("nan")
    try:
        found = check(bench)
    except NotSeen as reason:
        return Assertion(name, None, nan, nan, str(reason))
    except Exception as error:
        said = f"the backend raised {type(error).__name__}: {str(error)[:500]}; look at {check.__module__}.{name}"
        return Assertion(name, False, nan, nan, said)
    ok = found.value <= found.bound  # nan is not
    detail = found.said if ok else f"{found.said}; look at {found.look}"
    return Assertion(name, ok, found.value, found.bound, detail)
