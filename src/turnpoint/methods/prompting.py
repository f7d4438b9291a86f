"""Methods without training: ReAct, Reflexion and full retry. They only say how a task is tried, for evaluation.

* **ReAct** (arXiv 2210.03629): reason, then act; attempts are independent of each other.
* **Reflexion** (arXiv 2303.11366): after a failed attempt the policy says what went wrong; the next attempt starts
  anew with the last few of these remarks in its prompt.
* **Full retry**: after a failed attempt the task is tried again from its start, with nothing remembered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field, PositiveInt

from turnpoint.config import ConfigError
from turnpoint.methods.parts import Stateless
from turnpoint.methods.protocol import MethodSettings, Teachers
from turnpoint.methods.tally import Tally
from turnpoint.policy import PolicyCapabilities
from turnpoint.policy.settings import PolicySettings
from turnpoint.prompts import PromptSettings
from turnpoint.records import Attempt, Episode, Group, Row, Task
from turnpoint.rollouts import Rollouts, Scorer, reflect


class PromptingSettings(MethodSettings):
    """What the methods without training have in common."""

    trains: ClassVar[bool] = False
    defaults: ClassVar[Mapping[str, Any]] = {"train": {"steps": 0}}
    terms: ClassVar[tuple[str, ...]] = ("no training",)


class Prompting(Stateless):
    """Tries a task up to a number of times; plays and trains nothing in training steps."""

    def __init__(self, kind: str, *, memory: int = 0, reflection_tokens: int = 512) -> None:
        """``memory``: how many of the last reflections an attempt is given; 0 = none are asked for."""
        self.kind, self.memory, self.reflection_tokens = kind, memory, reflection_tokens
        self.tally = Tally()

    async def collect(self, tasks: Sequence[Task], rollouts: Rollouts, teachers: Teachers) -> list[Group]:
        """Refuses: there is nothing to train."""
        raise ConfigError(
            f"method '{self.kind}' only prompts the policy and trains nothing; set train.steps=0, or use turnpoint eval"
        )

    async def credit(self, groups: Sequence[Group], scorer: Scorer, teachers: Teachers) -> list[Row]:
        """No rows."""
        return []

    async def attempts(self, task: Task, index: int, rollouts: Rollouts, count: int) -> list[Episode]:
        """At most ``count`` attempts from the start, up to the first success."""
        chain = f"{rollouts.prefix}/{task.id}/{index}"
        episodes = [await rollouts.play(task, index, attempt=Attempt(chain=chain))]
        remarks: list[str] = []
        while len(episodes) < count and may_retry(episodes[-1]):
            last = episodes[-1]
            if self.memory:
                last.reflection = await reflect(
                    rollouts, last, pivot=False, max_tokens=self.reflection_tokens
                )
                remarks += [last.reflection.remark] if last.reflection.remark else []
            attempt = Attempt(len(episodes), tuple(remarks[-self.memory :]) if self.memory else (), chain)
            episodes.append(await rollouts.play(task, index, attempt=attempt, name=f"a{attempt.index}"))
        return episodes


def may_retry(episode: Episode) -> bool:
    """Whether an attempt ended as a failure that another one may mend, and not by a fault or without a turn."""
    ended = episode.stop is not None and episode.stop.has_outcome
    return ended and not episode.success and bool(episode.turns)


class ReActSettings(PromptingSettings):
    """Reason, then act."""

    title: ClassVar[str] = "ReAct"
    paper: ClassVar[str] = "arXiv 2210.03629"
    defaults: ClassVar[Mapping[str, Any]] = {"train": {"steps": 0}, "prompt": {"reasoning": True}}

    kind: Literal["react"] = "react"

    def check_backend(
        self, policy: PolicySettings, capabilities: PolicyCapabilities, prompt: PromptSettings
    ) -> None:
        if not prompt.reasoning:
            raise ConfigError(
                "method react reasons before it acts, and prompt.reasoning is false; set prompt.reasoning=true, or "
                "method.kind to full_retry"
            )

    def build(self) -> Prompting:
        return Prompting(self.kind)


class ReflexionSettings(PromptingSettings):
    """Retry with the last reflections in memory."""

    title: ClassVar[str] = "Reflexion"
    paper: ClassVar[str] = "arXiv 2303.11366"

    kind: Literal["reflexion"] = "reflexion"
    memory: int = Field(default=3, ge=1, le=3)
    """How many of the last reflections an attempt is given."""
    reflection_tokens: PositiveInt = 512
    """Longest reflection; one that is cut off is forgotten."""

    def build(self) -> Prompting:
        return Prompting(self.kind, memory=self.memory, reflection_tokens=self.reflection_tokens)


class FullRetrySettings(PromptingSettings):
    """Retry from the start, without memory."""

    title: ClassVar[str] = "Full retry"
    paper: ClassVar[str] = "arXiv 2607.03702"

    kind: Literal["full_retry"] = "full_retry"

    def build(self) -> Prompting:
        return Prompting(self.kind)
