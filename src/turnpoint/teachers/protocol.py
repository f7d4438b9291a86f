"""What teachers are: some name turns and actions in text, others score tokens."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from turnpoint.policy.protocol import Floats
from turnpoint.prompts.report import Report
from turnpoint.records import Episode, Message, Observation, Task, Turn


class Complete(Protocol):
    """One free-standing model call: chat messages in, the reply's text out."""

    def __call__(self, messages: Sequence[Message], draw: int = 0, /) -> Awaitable[str]:
        """``draw``: which of several answers to the same messages; each is sampled by itself."""


class TeacherFailure(StrEnum):
    """Why a teacher gave no answer."""

    TIME_OUT = "time_out"
    """No answer before the deadline."""
    UNREACHABLE = "unreachable"
    """The connection or the server failed, retries included."""
    REFUSED = "refused"
    """The request was rejected, or the model declined to answer."""
    UNPARSABLE = "unparsable"
    """An answer came, but nothing in it could be used."""
    BUDGET = "budget"
    """A configured limit was reached: calls, tokens, or the length of a prompt."""
    STATE = "state"
    """The state in question could not be brought back in the teacher's environment."""


class TeacherError(RuntimeError):
    """A teacher could not answer; rows lose its signal and nothing else. Callers count by ``reason``."""

    def __init__(self, reason: TeacherFailure, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Situation:
    """A state in which a teacher is asked for the next action."""

    task: Task
    turns: Sequence[Turn]
    """Every turn before the state, from the first of the task; those of a branch's parent included."""
    observation: Observation
    """What the agent sees now."""
    snapshot: Any = None
    """Native snapshot of the state where one is held; otherwise it is replayed from ``turns``."""
    episode: Episode | None = None
    """The recorded episode whose state it is, where there is one (its later turns are hindsight)."""
    turn: int = 0
    """Number of turns before the state."""

    def as_episode(self) -> Episode:
        """The state as the end of an episode, so that restoring it is verified like any recorded state."""
        return Episode(
            id=f"{self.task.id}/situation",
            task=self.task,
            turns=list(self.turns),
            final_observation=self.observation,
            final_snapshot=self.snapshot,
        )


class NamingTeacher(Protocol):
    """Names pivotal turns and better actions, in text: it needs no tokenizer in common with the student."""

    remote: bool
    """Answers come from outside this process and its policy, so that sampling can wait for them; False for the
    student itself, whose answers are sampled."""

    async def analyse(self, episode: Episode, max_pivots: int) -> Report | None:
        """Report on a finished episode with at most ``max_pivots`` candidates; None = nothing to say.

        Raises ``TeacherError``.
        """

    async def recover(self, situation: Situation) -> str | None:
        """The best next action as the teacher writes it, unresolved; None if it names none.

        Raises ``TeacherError``.
        """

    async def check(self) -> None:
        """Prove before a run that the teacher can answer; raises ``ConfigError`` with the way out."""

    def metrics(self) -> dict[str, float]:
        """Totals since the teacher was built: calls, failures by reason, and whatever else it counts."""

    async def close(self) -> None:
        """Release connections and environments; may be called twice."""


@runtime_checkable
class KeepsState(Protocol):
    """Optional part of a teacher: what it has to remember when a run is resumed."""

    def state_dict(self) -> dict[str, Any]:
        """What must survive a restart, as plain JSON."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of ``state_dict``."""


@runtime_checkable
class Resamples(Protocol):
    """Optional part of a naming teacher: it can be asked the same question several times, for different answers."""

    @property
    def varies(self) -> bool:
        """Whether its answers differ at all; asking one that always says the same is a waste."""

    def draw(self, number: int) -> NamingTeacher:
        """The same teacher with the ``number``-th answer to every question; 0 is the one it gives when asked once.

        Counts, limits and connections are shared.
        """


def teacher_label(teacher: NamingTeacher) -> str:
    """What tells a teacher apart from others in records: its ``label``, or else the name of its class."""
    return str(getattr(teacher, "label", type(teacher).__name__))


class Account(Protocol):
    """What a teacher may use, and what it has used."""

    step_goes_on: bool
    """Set by whoever looks at ``stops`` after each step: calls within one may then go beyond a limit."""

    def stops(self) -> str | None:
        """Why the run must end, in a sentence; None if it need not."""

    def totals(self) -> dict[str, float]:
        """Tokens and cost of the whole run."""


@runtime_checkable
class Spends(Protocol):
    """Optional part of a teacher: it costs tokens, of which there may be a budget."""

    @property
    def spending(self) -> Account:
        """Its account."""


@dataclass(frozen=True, slots=True)
class TurnScore:
    """Log-probs of one turn's response tokens, with the places they were taken at."""

    turn: int
    """Index of the turn."""
    start: int
    """Position of the first scored token in the sequence that the teacher read, at least 1."""
    token_ids: tuple[int, ...]
    """The tokens found at ``start``, ``start + 1`` and so on: exactly the turn's response, or its last part."""
    logprobs: Floats
    """Log-probability of each of them given all tokens before it, in nats, ``[len(token_ids)]``."""


class ScoringTeacher(Protocol):
    """Scores tokens that the student sampled; its tokenizer must be the student's."""

    frozen: bool
    """Scores of a turn never change; False for teachers that move with the student."""
    remote: bool
    """Answers take time outside this process, so that others can go on meanwhile."""

    async def score(self, episode: Episode, turns: Sequence[Turn], first: int = 0) -> list[TurnScore]:
        """Score turns of ``episode`` (in order, each with at least one response token), turn by turn.

        ``first``: leave out so many leading tokens of each response; they were scored before, while the (single)
        turn was being sampled.

        Called for the newest turn while the episode is being played (``episode.stop`` is None then) or for many
        turns at once afterwards. Calls of several episodes may be open at the same time; what becomes ready
        together is worked on together. Raises ``TeacherError``.
        """

    async def check(self) -> None:
        """Prove before a run that the teacher can score; raises ``ConfigError`` with the way out."""

    def metrics(self) -> dict[str, float]:
        """Totals since the teacher was built."""

    async def close(self) -> None:
        """Release what it holds; may be called twice."""
