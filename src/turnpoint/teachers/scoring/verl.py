"""A teacher on verl's teacher pool: servers on GPUs of their own, beside those of a verl policy."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import PositiveFloat, PositiveInt

from turnpoint.config import ConfigError
from turnpoint.policy.passages import Passage
from turnpoint.policy.protocol import Floats
from turnpoint.records import Episode, Turn
from turnpoint.teachers.protocol import TeacherFailure, TurnScore
from turnpoint.teachers.scoring.counters import ScoringCounters, as_passages, as_scores
from turnpoint.teachers.scoring.registry import ScoringTeacherSettings, Student
from turnpoint.teachers.scoring.tokenizers import read_tokenizer, require_same

if TYPE_CHECKING:
    from turnpoint.policy.verl.teacher import TeacherServers

START_SECONDS = 600.0
"""Longest wait for the first answer, while processes are still starting."""


class VerlScoringSettings(ScoringTeacherSettings):
    """A Hugging Face causal language model on rollout servers of its own; needs ``policy.kind: verl``."""

    kind: Literal["verl"] = "verl"
    model: Path
    """Folder of the model, with the student's tokenizer, reachable from every node."""
    nodes: PositiveInt = 1
    """Machines that the pool spans."""
    gpus_per_node: PositiveInt = 1
    """GPUs of each, beside those of the policy."""
    tensor_parallel: PositiveInt = 1
    """GPUs that one server spans."""
    context_length: PositiveInt | None = None
    """Longest sequence it reads; null = the student's context length."""
    call_seconds: PositiveFloat = 600.0
    """Longest wait for the scores of an episode."""
    concurrent: PositiveInt = 256
    """Most calls at a time; more wait."""

    def precheck(self, section: str) -> None:
        if not (self.model / "config.json").is_file():
            raise ConfigError(
                f"{section}.model is '{self.model}', which is no folder of a model (it has no config.json); give the "
                "folder of a saved model"
            )
        if self.nodes * self.gpus_per_node % self.tensor_parallel:
            raise ConfigError(
                f"{section}.tensor_parallel is {self.tensor_parallel}, which does not divide the pool's "
                f"{self.nodes * self.gpus_per_node} GPUs; set a divisor"
            )

    def build(self, student: Student, section: str = "scoring") -> VerlScoring:
        start = getattr(student.policy, "start_teacher", None)
        if start is None:
            raise ConfigError(
                f"{section}.kind is verl, whose teachers live beside a verl policy; set backend=verl, or "
                f"{section}.kind to local or http"
            )
        require_same(student.policy.tokenizer, read_tokenizer(self.model, section), f"{section}.model")
        servers = start(
            name=re.sub(r"\W", "", section),
            model=str(self.model.resolve()),
            gpus=self.gpus_per_node,
            nodes=self.nodes,
            tensor_parallel=self.tensor_parallel,
            context=self.context_length or student.policy.context_length,
        )
        return VerlScoring(self, servers)


class VerlScoring:
    """Sends token ids and reads their log-probs, at temperature 1."""

    frozen = True
    remote = True

    def __init__(self, settings: VerlScoringSettings, servers: TeacherServers) -> None:
        self.settings, self.servers = settings, servers
        self.counters = ScoringCounters()
        self._places = asyncio.Semaphore(settings.concurrent)

    async def score(self, episode: Episode, turns: Sequence[Turn], first: int = 0) -> list[TurnScore]:
        passages = as_passages(turns, first)
        longest = max(len(passage.ids) for passage in passages)
        if longest > self.servers.context:
            raise self.counters.fail(
                TeacherFailure.BUDGET,
                f"episode {episode.id} has {longest} tokens, the teacher reads at most {self.servers.context}",
            )
        values = await asyncio.gather(*(self._score(episode, passage) for passage in passages))
        self.counters.requests += 1
        self.counters.scored_tokens += sum(len(turn.response_ids) - first for turn in turns)
        return as_scores(turns, passages, values)

    async def _score(self, episode: Episode, passage: Passage) -> list[Floats]:
        from turnpoint.policy.verl.teacher import TeacherLost

        try:
            async with self._places:
                scores = await self.servers.logprobs(passage.ids, episode.id, self.settings.call_seconds)
        except TimeoutError:
            raise self.counters.fail(
                TeacherFailure.TIME_OUT,
                f"episode {episode.id}: no scores within {self.settings.call_seconds:g} s",
            ) from None
        except TeacherLost as error:
            raise self.counters.fail(TeacherFailure.UNREACHABLE, f"episode {episode.id}: {error}") from None
        self.counters.read_tokens += len(passage.ids)
        return [np.array(scores[start - 1 : stop - 1]) for start, stop in passage.spans]

    async def check(self) -> None:
        """Score a few tokens, so that a pool that does not work is seen before the run."""
        from turnpoint.policy.verl.teacher import TeacherLost

        seconds = max(self.settings.call_seconds, START_SECONDS)
        try:
            await self.servers.logprobs((0, 1, 2), "check", seconds)
        except (TimeoutError, TeacherLost) as error:
            why = str(error) or f"nothing within {seconds:g} s"
            raise ConfigError(
                f"the teacher pool of '{self.settings.model}' does not answer: {why}"
            ) from error

    def metrics(self) -> dict[str, float]:
        return self.counters.as_metrics()

    async def close(self) -> None:
        """End the servers."""
        self.servers.close()
