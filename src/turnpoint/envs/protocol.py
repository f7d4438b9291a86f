"""What an environment is: the contract that ``turnpoint envs check`` proves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from turnpoint.records import Observation, Step, Task

Knowledge = Literal["observed", "full"]
"""What an oracle may use: only what the episode has shown so far, or the whole hidden state."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an environment can do beyond reset and step."""

    deterministic: bool
    """The same task and actions give the same observations; without it there is no replay."""
    snapshots: bool
    """``snapshot`` and ``restore`` are native; otherwise states are restored by verified replay."""
    oracle: bool
    """``distance`` and ``best_actions`` exist."""
    admissible: bool
    """Every observation lists its admissible actions."""


class EnvError(RuntimeError):
    """An environment could not do what was asked; one episode ends with it, never the run."""


class EnvDataError(ValueError):
    """Games or data files are missing or unusable: an error before anything starts."""


@runtime_checkable
class Env(Protocol):
    """One playable copy of an environment; not shared between episodes that are open at the same time.

    Where actions cannot be listed, it may have ``random_action(rng)``: something to try, for a random agent.
    """

    capabilities: Capabilities

    def reset(self, task: Task) -> Observation:
        """Start ``task`` from its first state; equal tasks give equal episodes."""

    def step(self, action: str) -> Step:
        """Execute ``action`` (any text; an unknown one is answered, never raised)."""

    def snapshot(self) -> Any:
        """The whole state (what the agent has seen included), safe to keep while play goes on.

        Raises ``EnvError`` where ``capabilities.snapshots`` is false.
        """

    def restore(self, snapshot: Any) -> Observation:
        """Return to a snapshot, of this or another copy; gives the observation that was current there."""

    def distance(self) -> int | None:
        """L(s): least number of turns that still completes the task; None = impossible from here.

        Raises ``EnvError`` where ``capabilities.oracle`` is false.
        """

    def best_actions(self, knowledge: Knowledge = "full") -> list[str]:
        """Actions worth taking now, best first; empty if the task is done or impossible.

        ``full``: every action that lowers ``distance`` by one. ``observed``: every action that is best for an
        agent who knows only what the episode has shown (an unseen object: sensible unexplored places).
        """

    def close(self) -> None:
        """Release processes, files and sockets; may be called twice."""


class EnvSuite(Protocol):
    """An environment kind with its tasks: what a run config's ``env`` section builds.

    One whose agent calls tools also has ``tools``: their schemas, as chat templates take them. One that contains
    faults by itself also has ``counters()``: how often, by name, since it was built; metrics show them as ``env/…``.
    """

    name: str
    capabilities: Capabilities
    max_turns: int
    """Turn budget of an episode."""
    instructions: str
    """Rules of the environment for the prompt: what the agent can do and how it answers."""

    def tasks(self, split: str) -> Sequence[Task]:
        """All tasks of ``train`` or ``valid`` in a fixed order; may be lazy."""

    def make(self) -> Env:
        """A new playable copy."""

    def header(self) -> dict[str, Any]:
        """Versions, data hashes and counts for the run header."""

    def vocabulary_texts(self) -> Iterable[str]:
        """Strings that together hold every word the environment can show or accept.

        Raises ``EnvError`` where the language is open; small built-in models need a closed one.
        """
