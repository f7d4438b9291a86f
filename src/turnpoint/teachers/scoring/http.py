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
from turnpoint.teachers.endpoint import Endpoint, EndpointSettings, refuse_fields
from turnpoint.teachers.protocol import TeacherFailure, TurnScore
from turnpoint.teachers.scoring.completions import WAYS, Ask, PromptScores, read_scores, same_text
from turnpoint.teachers.scoring.counters import ScoringCounters, as_passages, as_scores
from turnpoint.teachers.scoring.registry import ScoringTeacherSettings, Student
from turnpoint.teachers.scoring.tokenizers import PROBES, read_tokenizer, require_same

PATH = "/completions"
NOISE = 0.1
"""Differences between two answers about the same tokens that low precision may cause, in nats."""
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
}


class HttpScoringSettings(EndpointSettings, ScoringTeacherSettings):
    """A model behind an OpenAI-compatible completions endpoint that returns log-probs of prompt tokens."""

    kind: Literal["http"] = "http"
    dialect: Literal["auto", "prompt_logprobs", "echo"] = "auto"
    """How log-probs are asked for: vLLM's ``prompt_logprobs``, or ``echo`` with ``logprobs``; ``auto`` tries both."""
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
        ask, ids = self._ask, passage.ids
        assert ask is not None
        values = (await self._request(ask, ids)).of(ids, ask)
        self.counters.read_tokens += len(ids)
        return [np.array(values[start:stop], dtype=np.float64) for start, stop in passage.spans]

    async def _request(self, ask: Ask, prompt: Sequence[int] | str) -> PromptScores:
        body = ask.body(self.settings.model, prompt) | self.settings.extra_body
        return await self._endpoint.call(PATH, body, lambda response: read_scores(response, ask))

    # ---- proofs before the run ------------------------------------------------------------------

    async def check(self) -> None:
        """Prove that the server scores our tokens. Raises ``ConfigError`` with what it lacks."""
        try:
            self._endpoint.refuse_unknown_model(await self._endpoint.models())
        except wire.CallFailed as failure:
            raise self._endpoint.broken(failure) from None
        self._ask = await self._find_way()
        await self._prove_alignment(self._ask)
        if self.settings.tokenizer is None:
            await self._prove_tokenizer(self._ask)

    async def _find_way(self) -> Ask:
        """The first way of asking that returns a log-prob for every token of a known prompt."""
        ids, faults = self._encode(PROBES[1]), []
        for ask in WAYS:
            if self.settings.dialect not in ("auto", ask.dialect):
                continue
            try:
                (await self._request(ask, ids)).of(ids, ask)
                return ask
            except wire.CallFailed as failure:
                if failure.reason in (TeacherFailure.TIME_OUT, TeacherFailure.UNREACHABLE):
                    raise self._endpoint.broken(failure) from None
                faults.append(f"{ask.dialect}: {failure}")
        raise ConfigError(
            f"{self._section}: the endpoint returns no log-probs of prompt tokens, which scoring needs "
            f"({'; '.join(faults)}); serve the model with a server that does (vLLM: prompt_logprobs; others: "
            f"completions with echo and logprobs), or use {self._section}.kind: local"
        )

    async def _prove_alignment(self, ask: Ask) -> None:
        """Changing the last token must change the last log-prob and no other."""
        first = self._encode(PROBES[0])
        size = max(getattr(self._tokenizer, "vocab_size", 0), first[-1] + 1, 2)
        nearby = [
            (first[-1] + step) % size for step in (1, 7, 101)
        ]  # for vocabularies without the probes' words
        others = dict.fromkeys([*self._encode(PROBES[1]), *nearby])
        lasts = [token for token in others if token != first[-1]][:4]
        try:
            base = (await self._request(ask, first)).of(first, ask)
            moved = []
            for last in lasts:
                changed = [*first[:-1], last]
                values = (await self._request(ask, changed)).of(changed, ask)
                moved.append([abs((a or 0.0) - (b or 0.0)) for a, b in zip(base, values, strict=True)])
        except wire.CallFailed as failure:
            raise self._endpoint.broken(failure) from None
        if any(max(row[:-1], default=0.0) > NOISE for row in moved) or all(row[-1] < NOISE for row in moved):
            raise ConfigError(
                f"{self._section}: the endpoint's log-probs do not lie where their tokens lie (changing the last "
                "token of a prompt changed others, or nothing); use another server or dialect"
            )

    async def _prove_tokenizer(self, ask: Ask) -> None:
        """The server must cut probe texts into our tokens."""
        for text in PROBES:
            try:
                scores = await self._request(ask, text)
            except wire.CallFailed as failure:
                raise ConfigError(
                    f"{self._section}: the endpoint does not score text, so its tokenizer cannot be compared with the "
                    f"student's ({failure}); set {self._section}.tokenizer to the folder of its tokenizer"
                ) from None
            ours = [self._encode(text), list(self._tokenizer.encode(text))]
            if not any(self._is_cut(scores, ids, ask) for ids in ours):
                raise ConfigError(
                    f"{self._section} has another tokenizer than the student: the endpoint cuts {text!r} into other "
                    f"tokens than the student's {len(ours[0])}. A scoring teacher must read the student's own tokens: "
                    "serve a model of the same family and version"
                )

    def _is_cut(self, scores: PromptScores, ids: Sequence[int], ask: Ask) -> bool:
        """Whether a text was scored as exactly these tokens, as far as the server tells."""
        try:
            scores.of(ids, ask)
        except wire.CallFailed:
            return False
        texts = scores.texts or []
        return all(same_text(self._tokenizer.decode([i]), text) for i, text in zip(ids, texts, strict=False))

    def _encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def metrics(self) -> dict[str, float]:
        return self.counters.as_metrics()

    async def close(self) -> None:
        await self._endpoint.close()
