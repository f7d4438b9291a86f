"""A model of a folder as the scoring teacher, in this process.

While an episode is being played the teacher's keys and values of it stay cached, so that scoring turn t reads only
the tokens that are new since turn t - 1. Finished episodes are read whole, in large batches, without the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import PositiveFloat, PositiveInt

from turnpoint.config import ConfigError
from turnpoint.policy.passages import Passage
from turnpoint.policy.protocol import Floats
from turnpoint.records import Episode, Turn
from turnpoint.teachers.protocol import TeacherFailure, TurnScore
from turnpoint.teachers.scoring.batcher import Batcher
from turnpoint.teachers.scoring.counters import ScoringCounters, as_passages, as_scores
from turnpoint.teachers.scoring.registry import ScoringTeacherSettings, Student
from turnpoint.teachers.scoring.tokenizers import require_same

if TYPE_CHECKING:
    from turnpoint.policy.local.frozen import FrozenModel


class LocalScoringSettings(ScoringTeacherSettings):
    """A Hugging Face causal language model of a folder."""

    kind: Literal["local"] = "local"
    model: Path
    """Folder of the model, with the student's tokenizer."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Weights and activations; log-probs are computed in float32 either way."""
    device: str = "auto"
    """``cpu``, ``cuda`` or ``auto``."""
    context_length: PositiveInt | None = None
    """Longest sequence it reads; null = what the model's config says, at most 32,768."""
    temperature: PositiveFloat = 1.0
    """Temperature at which log-probs are taken."""
    cache_rows: PositiveInt = 128
    """Episodes whose key-value cache is kept at a time while they are played."""
    token_budget: PositiveInt = 16384
    """Most tokens, padding included, in one forward pass."""
    batch: PositiveInt = 32
    """Episodes after which a batch does not wait for more to become ready."""

    def precheck(self, section: str) -> None:
        if not (self.model / "config.json").is_file():
            raise ConfigError(
                f"{section}.model is '{self.model}', which is no folder of a model (it has no config.json); give the "
                "folder of a saved model, such as the policy/ of a checkpoint, or make one first: turnpoint train "
                "teacher_household makes the one that the household recipes name"
            )

    def build(self, student: Student, section: str = "scoring") -> LocalScoring:
        from turnpoint.policy.local.frozen import FrozenModel

        model = FrozenModel(
            self.model,
            section=section,
            dtype=self.dtype,
            device=self.device,
            context_length=self.context_length,
            cache_rows=self.cache_rows,
            token_budget=self.token_budget,
            temperature=self.temperature,
        )
        require_same(student.policy.tokenizer, model.tokenizer, f"{section}.model '{self.model}'")
        return LocalScoring(model, batch=self.batch)


@dataclass(frozen=True, slots=True)
class _Job:
    session: str
    """Name of the episode while its cache is kept; empty = read without the cache."""
    passages: list[Passage]


class LocalScoring:
    """Scores with a frozen model."""

    frozen = True
    remote = False

    def __init__(self, model: FrozenModel, *, batch: int) -> None:
        self.model = model
        self.counters = ScoringCounters()
        self._batcher: Batcher[_Job, list[list[Floats]]] = Batcher(self._work, batch)
        self._step = 0

    async def score(self, episode: Episode, turns: Sequence[Turn], first: int = 0) -> list[TurnScore]:
        passages = as_passages(turns, first)
        self._refuse_misfits(episode, passages)
        self._enter_step(episode.step)
        kept = episode.stop is None or self.model.sessions.holds(episode.id)
        job = _Job(episode.id if kept else "", passages)
        values = await self._batcher.do(f"{episode.id}#{turns[0].index:06d}", job)
        if kept and episode.stop is not None:
            self.model.sessions.end_session(episode.id)
        self.counters.requests += 1
        self.counters.scored_tokens += sum(len(turn.response_ids) - first for turn in turns)
        return as_scores(turns, passages, values)

    def _enter_step(self, step: int) -> None:
        """Caches end with a step: a resumed run, which starts without any, repeats a whole one bit for bit."""
        if step != self._step:
            self._step = step
            self.model.sessions.forget()

    def _refuse_misfits(self, episode: Episode, passages: Sequence[Passage]) -> None:
        longest, limit = max(len(p.ids) for p in passages), self.model.context_length
        if longest > limit:
            raise self.counters.fail(
                TeacherFailure.BUDGET,
                f"episode {episode.id} has {longest} tokens, the teacher reads at most {limit}; lower "
                "rollout.max_turns or prompt.max_prompt_tokens, or choose a teacher with a longer context",
            )
        if max(max(p.ids) for p in passages) >= self.model.vocabulary:
            raise self.counters.fail(
                TeacherFailure.REFUSED,
                f"episode {episode.id} has a token outside the teacher's {self.model.vocabulary} logits",
            )

    def _work(self, jobs: list[_Job]) -> list[list[list[Floats]]]:
        """Scores of all passages of each job; cached and uncached jobs each in one batch."""
        results: list[list[list[Floats]]] = [[] for _ in jobs]
        for cached in (True, False):
            chosen = [i for i, job in enumerate(jobs) if bool(job.session) == cached]
            passages = [passage for i in chosen for passage in jobs[i].passages]
            if not passages:
                continue
            owners = [i for i in chosen for _ in jobs[i].passages]
            values = (
                self.model.sessions.score([jobs[i].session for i in owners], passages)
                if cached
                else self.model.score(passages)
            )
            for owner, value in zip(owners, values, strict=True):
                results[owner].append(value)
            if not cached:
                self.counters.read_tokens += sum(len(passage.ids) for passage in passages)
        return results

    async def check(self) -> None:
        """Nothing to prove: what does not fit is refused when the teacher is built."""

    def metrics(self) -> dict[str, float]:
        totals = self.counters.as_metrics()
        totals["read_tokens"] += self.model.sessions.counts["read"]
        return totals | {
            "cached_tokens": float(self.model.sessions.counts["reused"]),
            "batches": float(self._batcher.batches),
            "out_of_memory": float(self.model.budget.halvings),
        }

    async def close(self) -> None:
        """The model belongs to the process."""
        self.model.sessions.forget()
