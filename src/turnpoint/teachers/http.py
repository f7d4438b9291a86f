"""Any OpenAI-compatible chat endpoint as the naming teacher."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field, NonNegativeFloat, PositiveInt, field_validator

from turnpoint.envs.protocol import EnvSuite
from turnpoint.records import Message
from turnpoint.teachers import wire
from turnpoint.teachers.chat import ChatTeacher, ChatTeacherSettings
from turnpoint.teachers.endpoint import Endpoint, EndpointSettings, refuse_fields
from turnpoint.teachers.protocol import Complete, TeacherFailure

PATH = "/chat/completions"


class HttpTeacherSettings(EndpointSettings, ChatTeacherSettings):
    """A chat model behind an OpenAI-compatible endpoint (``POST <base_url>/chat/completions``)."""

    kind: Literal["http"] = "http"
    temperature: NonNegativeFloat | None = 0.0
    """Sampling temperature; None = the endpoint's default (some models accept no other)."""
    max_tokens: PositiveInt | None = 2048
    """Longest reply; None = not sent (some models take another name for it, see ``extra_body``)."""
    token_budget: PositiveInt | None = None
    """Prompt and reply tokens of the whole run after which no further call is made; None = no limit."""
    extra_body: dict[str, Any] = Field(default_factory=dict)
    """Further fields of the request body, for example ``{"seed": 1}``."""

    @field_validator("extra_body")
    @classmethod
    def _no_own_fields(cls, body: dict[str, Any]) -> dict[str, Any]:
        return refuse_fields(body, {"model", "messages", "temperature", "max_tokens", "stream"})

    def build(self, suite: EnvSuite, complete: Complete | None = None) -> HttpTeacher:
        return HttpTeacher(self, suite.instructions)


class HttpTeacher(ChatTeacher):
    """Sends questions to the endpoint, patiently; safe to use from several event loops, one after another."""

    remote = True

    def __init__(self, settings: HttpTeacherSettings, instructions: str = "") -> None:
        super().__init__(settings, instructions)
        self.settings = settings
        self._endpoint = Endpoint(settings, "teacher", self._count_retry)
        self._used_before = 0
        """Tokens that the run had used up when it was resumed."""

    @property
    def label(self) -> str:
        """Kind and model."""
        return f"http:{self.settings.model}"

    @property
    def varies(self) -> bool:
        """Whether the endpoint samples; without a temperature of ours it does as its default says."""
        return self.settings.temperature != 0

    def _count_retry(self) -> None:
        self.counters.retries += 1

    async def complete(self, messages: Sequence[Message]) -> str:
        settings, counters = self.settings, self.counters
        used = self._used()
        if settings.token_budget is not None and used >= settings.token_budget:
            raise counters.fail(
                TeacherFailure.BUDGET,
                f"teacher.token_budget ({settings.token_budget}) is used up: {used} tokens",
            )
        try:
            reply = await self._endpoint.call(PATH, self._body(messages), wire.read_reply)
        except wire.CallFailed as failure:
            raise counters.fail(failure.reason, str(failure)) from None
        counters.requests += 1
        counters.prompt_tokens += reply.prompt_tokens
        counters.completion_tokens += reply.completion_tokens
        if reply.refusal is not None:
            raise counters.fail(TeacherFailure.REFUSED, f"the model declined: {reply.refusal[:200]}")
        return reply.text

    def _used(self) -> int:
        """Tokens of the run, those before it was resumed included."""
        return self._used_before + self.counters.prompt_tokens + self.counters.completion_tokens

    def state_dict(self) -> dict[str, Any]:
        """Tokens used of the budget, as plain JSON."""
        return {"used_tokens": self._used()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on with the budget where the run was interrupted."""
        self._used_before = int(state["used_tokens"])

    def _body(self, messages: Sequence[Message]) -> dict[str, Any]:
        settings = self.settings
        body: dict[str, Any] = {
            "model": settings.model,
            "messages": [{"role": m.role, "content": wire.sendable(m.content)} for m in messages],
        }
        if settings.max_tokens is not None:
            body["max_tokens"] = settings.max_tokens
        if settings.temperature is not None:
            body["temperature"] = settings.temperature
        body |= settings.extra_body
        if self.number and isinstance(body.get("seed"), int):
            body["seed"] += self.number  # the endpoint would repeat its answer
        return body

    async def check(self) -> None:
        """Look the model up at the endpoint; where it lists none, ask it for one token."""
        try:
            known = await self._endpoint.models()
            if known is None:
                body = self._body([Message("user", "Reply with: ok")]) | {"max_tokens": 1}
                await self._endpoint.call(PATH, body, wire.read_reply)
        except wire.CallFailed as failure:
            raise self._endpoint.broken(failure) from None
        self._endpoint.refuse_unknown_model(known)

    async def close(self) -> None:
        await self._endpoint.close()
