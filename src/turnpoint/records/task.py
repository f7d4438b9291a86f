"""What an environment is asked and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message. ``token_ids`` are set on sampled assistant messages: they, not ``content``, are re-used."""

    role: str
    content: str
    token_ids: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """One task of an environment; JSON-serialisable, so that any process can reset to it."""

    id: str
    """Unique in its environment and split; names the group and the random streams."""
    env: str
    """Kind of the environment that can play it."""
    instruction: str = ""
    """What the agent is asked, in one line."""
    type: str = ""
    """Task family for per-type results, for example ``pick_heat_then_place_in_recep``."""
    domain: str = ""
    """Routes a task to its own teacher in multi-teacher runs."""
    seed: int = 0
    data: Mapping[str, Any] = field(default_factory=dict)
    """Whatever the environment needs to rebuild the task (a path, a generator seed); plain JSON values."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What the agent sees before a turn."""

    text: str
    admissible: tuple[str, ...] | None = None
    """Every action the environment would accept, or None where they cannot be listed."""
    state_key: str | None = None
    """Equal for equal environment states within a task: the anchor of step-level groups."""


@dataclass(frozen=True, slots=True)
class Step:
    """The environment's answer to one action."""

    observation: Observation
    reward: float
    done: bool
    success: bool | None = None
    """Set on the last step; None while the episode is open or where success is not defined."""
    effective: bool = True
    """False if the environment did not understand or could not execute the action."""
    score: float | None = None
    """How well the task is done so far, from 0 to 1, where the environment knows finer grades than success."""
