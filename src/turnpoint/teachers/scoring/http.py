"""A completion server as the scoring teacher: vLLM, SGLang, llama.cpp and others that return prompt log-probs.

What the server does is proved before the run: that it returns log-probs of prompt tokens, that these lie where the
tokens lie, and that its tokenizer is the student's. Each episode is sent once; with early stopping, once per turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field, PositiveInt, field_validator

from turnpoint.config import ConfigError
from turnpoint.policy.passages import Passage
from turnpoint.policy.protocol import Floats
from turnpoint.records import Episode, Turn
from turnpoint.teachers import wire
from turnpoint.teachers.cache import key_of
from turnpoint.teachers.endpoint import Endpoint, EndpointSettings, refuse_fields
from turnpoint.teachers.protocol import TeacherFailure, TurnScore
from turnpoint.teachers.scoring.completions import Ask, Dialect, PromptScores, read_scores, same_text
from turnpoint.teachers.scoring.counters import ScoringCounters, as_passages, as_scores
from turnpoint.teachers.scoring.proofs import NOISE, Proofs
from turnpoint.teachers.scoring.registry import ScoringTeacherSettings, Student
from turnpoint.teachers.scoring.tokenizers import read_tokenizer, require_same

_STORED = np.dtype("<f8")
_FIXED = {
    "model",
    "prompt",
    "max_tokens",
    "temperature",
    "echo",
    "logprobs",
    "prompt_logprobs",
    "stream",
    "n",
    "text",
    "input_ids",
    "sampling_params",
    "return_logprob",
    "logprob_start_len",
    "top_logprobs_num",
}


class HttpScoringSettings(EndpointSettings, ScoringTeacherSettings):
    """A model behind an OpenAI-compatible completions endpoint that returns log-probs of prompt tokens."""

    kind: Literal["http"] = "http"
    dialect: Dialect | Literal["auto"] = "auto"
    """How log-probs are asked for: vLLM's ``prompt_logprobs``, ``sglang``'s own /generate, ``echo`` with ``logprobs``,
    or the same with prompts as text (``echo_text``: llama-cpp-python); ``auto`` tries one after another."""
    tokenizer: Path | None = None
    """Folder with the tokenizer of the server's model, compared exactly with the student's; null = the server is
    asked to tokenize probe texts."""
    context_length: PositiveInt | None = None
    """Longest sequence that is sent; null = whatever the student can produce."""
    extra_body: dict[str, Any] = Field(default_factory=dict)
    """Further fields of the request body."""

    @field_validator("extra_body")
    @classmethod
    def _no_own_fields(cls, body: dict[str, Any]) -> dict[str, Any]:
        return refuse_fields(body, _FIXED)

    def build(self, student: Student, section: str = "scoring") -> HttpScoring:
        if self.tokenizer is not None:
            name = f"{section}.tokenizer"
            require_same(student.policy.tokenizer, read_tokenizer(self.tokenizer, name), name)
        return HttpScoring(self, student.policy.tokenizer, section)


class HttpScoring:
    """Sends token ids and reads their log-probs."""

    frozen = True
    remote = True

    def __init__(self, settings: HttpScoringSettings, tokenizer: Any, section: str = "scoring") -> None:
        self.settings = settings
        self.counters = ScoringCounters()
        self._tokenizer = tokenizer
        self._section = section
        self._endpoint = Endpoint(settings, section, self._count_retry)
        self.spending = self._endpoint.spending
        """Tokens and cost of the run."""
        self.notes: list[str] = []
        """What the check found out about the server."""
        self._bought = (0, 0)
        """Prompt and completion tokens of every answer, those of the check included."""
        self._ask: Ask | None = None
        """How this server answers; found by ``check``."""

    def _count_retry(self) -> None:
        self.counters.retries += 1

    async def score(self, episode: Episode, turns: Sequence[Turn], first: int = 0) -> list[TurnScore]:
        if self._ask is None:
            await self.check()
        passages = as_passages(turns, first)
        longest, limit = max(len(p.ids) for p in passages), self.settings.context_length
        if limit is not None and longest > limit:
            raise self.counters.fail(
                TeacherFailure.BUDGET,
                f"episode {episode.id} has {longest} tokens, above {self._section}.context_length ({limit})",
            )
        try:
            values = await asyncio.gather(*(self._score(passage) for passage in passages))
        except wire.CallFailed as failure:
            raise self.counters.fail(
                failure.reason, f"episode {episode.id}, turn {turns[0].index} on: {failure}"
            ) from None
        self.counters.requests += len(passages)
        self.counters.scored_tokens += sum(len(turn.response_ids) - first for turn in turns)
        return as_scores(turns, passages, values)

    async def _score(self, passage: Passage) -> list[Floats]:
        """Scores of each span: from the cache if they are there, else from the server, within the budget."""
        cache, ask = self._endpoint.cache, self._ask
        assert ask is not None
        if cache is None:
            return await self._buy(passage)
        key = key_of("scoring", self._identity, [list(passage.ids), list(passage.spans)])
        known = cache.get(key)
        if known is not None:
            self.spending.spare(len(passage.ids), ask.max_tokens)
            return _split(np.frombuffer(known, dtype=_STORED).astype(np.float64), passage)
        values = await self._buy(passage)
        cache.put(key, np.concatenate(values).astype(_STORED).tobytes())
        return values

    async def _buy(self, passage: Passage) -> list[Floats]:
        ask, ids = self._ask, passage.ids
        assert ask is not None
        refusal = self.spending.refusal()
        if refusal is not None:
            raise wire.CallFailed(TeacherFailure.BUDGET, refusal, retry=False)
        scores = await self._request(ask, ids)
        values = scores.of(ids, ask)
        if ask.by_text and not self._same_tokens(ids, scores):
            raise wire.CallFailed(
                TeacherFailure.UNPARSABLE,
                "the server cut the text into other tokens than were sampled",
                retry=False,
            )
        self.counters.read_tokens += len(ids)
        return [np.array(values[start:stop], dtype=np.float64) for start, stop in passage.spans]

    def _same_tokens(self, ids: Sequence[int], scores: PromptScores) -> bool:
        texts = scores.texts or []
        return all(same_text(self._tokenizer.decode([i]), text) for i, text in zip(ids, texts, strict=False))

    async def _request(
        self, ask: Ask, prompt: Sequence[int] | str, retries: int | None = None
    ) -> PromptScores:
        """One counted answer. Raises ``wire.CallFailed``."""
        given = (
            self._tokenizer.decode(list(prompt)) if ask.by_text and not isinstance(prompt, str) else prompt
        )
        body = ask.body(self.settings.model, given) | self.settings.extra_body
        read = await self._endpoint.call(
            ask.path, body, lambda response: read_scores(response, ask), retries=retries
        )
        used = (read.prompt_tokens or len(prompt), read.completion_tokens or ask.max_tokens)
        self.spending.add(*used)
        self._bought = (self._bought[0] + used[0], self._bought[1] + used[1])
        return read

    @property
    def _identity(self) -> dict[str, Any]:
        """Whose scores these are."""
        assert self._ask is not None
        way = {"dialect": self._ask.dialect, "extra": self.settings.extra_body}
        return self._endpoint.identity | way

    def state_dict(self) -> dict[str, Any]:
        """The account of the run."""
        return self.spending.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on with the account where the run was interrupted."""
        self.spending.load_state_dict(state)

    # ---- proofs before the run ------------------------------------------------------------------

    async def check(self) -> None:
        """Prove that the server scores our tokens. Raises ``ConfigError`` with what it lacks."""
        try:
            self._endpoint.refuse_unknown_model(await self._endpoint.models())
        except wire.CallFailed as failure:
            raise self._endpoint.broken(failure) from None
        proofs = Proofs(self._endpoint, self._section, self._tokenizer, self._probe)
        self._ask = await proofs.way(self.settings.dialect)
        await proofs.alignment(self._ask)
        self._prove_unchanged(await proofs.repetition(self._ask))
        if self.settings.tokenizer is None:
            await proofs.tokenizer(self._ask)
        self.notes = proofs.notes

    async def _probe(self, ask: Ask, prompt: Sequence[int] | str) -> PromptScores:
        """What cannot be answered is no reason to wait long."""
        return await self._request(ask, prompt, retries=min(self.settings.retries, 1))

    def _prove_unchanged(self, probe: list[float]) -> None:
        """The model is the one whose scores the cache holds, as far as a probe tells."""
        cache = self._endpoint.cache
        if cache is None:
            return
        key, now = key_of("probe", self._identity, len(probe)), np.array(probe, dtype=_STORED)
        known = cache.get(key)
        if known is None:
            cache.put(key, now.tobytes())
            return
        gap = float(np.abs(np.frombuffer(known, dtype=_STORED) - now).max())
        if gap > NOISE:
            raise ConfigError(
                f"{self._section}: the model behind '{self.settings.model}' is not the one whose scores are in "
                f"{self._section}.cache (a known prompt differs by up to {gap:.2g} nats); give these weights a "
                "name of "
                f"their own in {self._section}.revision, or set {self._section}.cache=off"
            )

    def metrics(self) -> dict[str, float]:
        """Totals since the teacher was built."""
        bought = {"prompt_tokens": self._bought[0], "completion_tokens": self._bought[1]}
        tokens = {name: float(value) for name, value in bought.items()}
        spared = self.spending.spared()["cached_prompt_tokens"]
        cached = {"cached_read_tokens": spared} if self._endpoint.cache is not None else {}
        return self.counters.as_metrics() | tokens | self._endpoint.metrics() | cached

    async def close(self) -> None:
        await self._endpoint.close()


def _split(values: Floats, passage: Passage) -> list[Floats]:
    """One array for each span of a passage."""
    ends = np.cumsum([stop - start for start, stop in passage.spans])[:-1]
    return [np.array(part) for part in np.split(values, ends)]
