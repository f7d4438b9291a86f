"""Any OpenAI-compatible chat endpoint as the naming teacher."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any, Literal
from urllib.parse import urlsplit

import httpx
from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, field_validator

from turnpoint.config import ConfigError
from turnpoint.envs.protocol import EnvSuite
from turnpoint.records import Message
from turnpoint.teachers import wire
from turnpoint.teachers.chat import ChatTeacher, ChatTeacherSettings
from turnpoint.teachers.protocol import Complete, TeacherFailure


class HttpTeacherSettings(ChatTeacherSettings):
    """A chat model behind an OpenAI-compatible endpoint (``POST <base_url>/chat/completions``)."""

    kind: Literal["http"] = "http"
    base_url: str
    """Address up to the version, for example ``http://localhost:8000/v1``."""
    model: str
    """Name of the model at the endpoint."""
    api_key_env: str | None = None
    """Environment variable that holds the key; None = no key is sent."""
    temperature: NonNegativeFloat | None = 0.0
    """Sampling temperature; None = the endpoint's default (some models accept no other)."""
    max_tokens: PositiveInt | None = 2048
    """Longest reply; None = not sent (some models take another name for it, see ``extra_body``)."""
    timeout: PositiveFloat = 120.0
    """Seconds to wait for one request."""
    deadline: PositiveFloat = 300.0
    """Seconds for one call with all its retries, from the moment it gets a place."""
    concurrency: PositiveInt = 16
    """Most requests at a time."""
    retries: NonNegativeInt = 5
    """Further tries after overload (408, 429), server errors (5xx), lost connections, time-outs and garbage."""
    backoff: NonNegativeFloat = 1.0
    """Seconds before the first retry; doubled for each one, with jitter, unless the server says how long."""
    backoff_max: PositiveFloat = 60.0
    """Longest wait that is not asked for by the server."""
    token_budget: PositiveInt | None = None
    """Prompt and reply tokens after which no further call is made; None = no limit."""
    extra_body: dict[str, Any] = Field(default_factory=dict)
    """Further fields of the request body, for example ``{"seed": 1}``."""

    @field_validator("base_url")
    @classmethod
    def _plain_url(cls, url: str) -> str:
        parts = urlsplit(url)
        _ = parts.port  # raises ValueError if it is no port
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("must be an address that starts with http:// or https://")
        if parts.username or parts.password:
            raise ValueError("must not hold a user name or password; name the key's variable in api_key_env")
        return url.rstrip("/")

    @field_validator("extra_body")
    @classmethod
    def _no_own_fields(cls, body: dict[str, Any]) -> dict[str, Any]:
        taken = sorted({"model", "messages", "temperature", "max_tokens", "stream"} & body.keys())
        if taken:
            raise ValueError(
                f"must not set {', '.join(taken)}: settings of the same name exist or it is fixed"
            )
        return body

    def build(self, suite: EnvSuite, complete: Complete | None = None) -> HttpTeacher:
        return HttpTeacher(self, suite.instructions)


class HttpTeacher(ChatTeacher):
    """Sends questions to the endpoint, patiently; safe to use from several event loops, one after another."""

    def __init__(self, settings: HttpTeacherSettings, instructions: str = "") -> None:
        super().__init__(settings, instructions)
        self.settings = settings
        self._key = _read_key(settings.api_key_env)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: httpx.AsyncClient | None = None
        self._places = asyncio.Semaphore(settings.concurrency)

    async def complete(self, messages: Sequence[Message]) -> str:
        settings, counters = self.settings, self.counters
        used = counters.prompt_tokens + counters.completion_tokens
        if settings.token_budget is not None and used >= settings.token_budget:
            raise counters.fail(
                TeacherFailure.BUDGET,
                f"teacher.token_budget ({settings.token_budget}) is used up: {used} tokens",
            )
        self._enter_loop()
        async with self._places:
            try:
                async with asyncio.timeout(settings.deadline):
                    reply = await self._persist(self._body(messages))
            except wire.CallFailed as failure:
                raise counters.fail(failure.reason, self._describe(failure)) from None
            except TimeoutError:
                raise counters.fail(
                    TeacherFailure.TIME_OUT,
                    f"{settings.base_url} gave no answer within teacher.deadline ({settings.deadline:g} s)",
                ) from None
        counters.requests += 1
        counters.prompt_tokens += reply.prompt_tokens
        counters.completion_tokens += reply.completion_tokens
        if reply.refusal is not None:
            raise counters.fail(TeacherFailure.REFUSED, f"the model declined: {reply.refusal[:200]}")
        return reply.text

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
        return body | settings.extra_body

    async def _persist(self, body: dict[str, Any]) -> wire.Reply:
        """The first good reply, after as many retries as are allowed. Raises ``wire.CallFailed``."""
        settings, attempt = self.settings, 0
        while True:
            try:
                return wire.read_reply(await self._post(body))
            except wire.CallFailed as failure:
                if not failure.retry or attempt >= settings.retries:
                    raise
                wait = wire.wait_seconds(failure.retry_after, attempt, settings.backoff, settings.backoff_max)
            attempt += 1
            self.counters.retries += 1
            await asyncio.sleep(wait)

    async def _post(self, body: dict[str, Any]) -> httpx.Response:
        assert self._client is not None
        with wire.transport_failures():
            # httpx limits each read; a server that drips bytes is stopped by the limit on the whole request.
            async with asyncio.timeout(self.settings.timeout):
                return await self._client.post(f"{self.settings.base_url}/chat/completions", json=body)

    def _describe(self, failure: wire.CallFailed) -> str:
        text = f"{self.settings.base_url} ({self.settings.model}): {failure}"
        return text.replace(self._key, "***") if self._key else text

    def _enter_loop(self) -> None:
        """Connections and locks belong to one event loop; a run may use a new one for every step."""
        loop = asyncio.get_running_loop()
        if self._client is not None and self._loop is loop:
            return
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        limits = httpx.Limits(max_connections=self.settings.concurrency)
        self._client = httpx.AsyncClient(headers=headers, timeout=self.settings.timeout, limits=limits)
        self._places = asyncio.Semaphore(self.settings.concurrency)
        self._loop = loop

    async def check(self) -> None:
        """Look the model up at the endpoint; where it lists none, ask it for one token."""
        settings = self.settings
        self._enter_loop()
        assert self._client is not None
        try:
            with wire.transport_failures():
                async with asyncio.timeout(min(settings.timeout, 30.0)):
                    listing = await self._client.get(f"{settings.base_url}/models")
            known = wire.read_models(listing)
            if known is None:
                body = self._body([Message("user", "Reply with: ok")]) | {"max_tokens": 1}
                wire.read_reply(await self._post(body))
        except wire.CallFailed as failure:
            raise ConfigError(
                f"the teacher's endpoint does not work: {self._describe(failure)}; start the server or correct "
                f"teacher.base_url, teacher.model and teacher.api_key_env"
            ) from None
        if known is not None and settings.model not in known:
            raise ConfigError(wire.unknown_model(settings.base_url, settings.model, known))

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None and self._loop is asyncio.get_running_loop():
            await client.aclose()


def _read_key(variable: str | None) -> str | None:
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if not key:
        raise ConfigError(
            f"teacher.api_key_env names the environment variable {variable}, which is not set; set it, or leave "
            "api_key_env out if the endpoint needs no key"
        )
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(
            f"the key in the environment variable {variable} has characters that no HTTP header can carry; "
            "set it to the key alone"
        )
    return key
