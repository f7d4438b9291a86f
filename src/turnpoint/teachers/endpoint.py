"""An OpenAI-compatible endpoint: patient requests, whatever is asked of it."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx
from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, field_validator

from turnpoint.config import ConfigError
from turnpoint.teachers import wire
from turnpoint.teachers.cache import AUTO, TeacherCache
from turnpoint.teachers.gate import Gate, GateSettings
from turnpoint.teachers.protocol import TeacherFailure
from turnpoint.teachers.spending import Costs, Spending

T = TypeVar("T")


class EndpointSettings(Costs, GateSettings):
    """Where the endpoint is, how patient its client, what it may cost and what is kept of its answers."""

    base_url: str
    """Address up to the version, for example ``http://localhost:8000/v1``."""
    model: str
    """Name of the model at the endpoint."""
    api_key_env: str | None = None
    """Environment variable that holds the key; None = no key is sent."""
    timeout: PositiveFloat = 120.0
    """Seconds to wait for one request."""
    deadline: PositiveFloat = 300.0
    """Seconds for one call with all its retries, from the moment it gets a place."""
    retries: NonNegativeInt = 5
    """Further tries after overload (408, 429), server errors (5xx), lost connections, time-outs and garbage."""
    backoff: NonNegativeFloat = 1.0
    """Seconds before the first retry; doubled for each one, with jitter, unless the server says how long."""
    backoff_max: PositiveFloat = 60.0
    """Longest wait that is not asked for by the server."""
    revision: str | None = None
    """Your name for the weights behind ``model`` (a commit, a date). It is part of what answers in the cache belong to,
    and with it the address is not: set it where the same weights are served at changing addresses."""
    cache: str = "off"
    """Where answers are kept on disk to be used again: a file, ``auto`` (.cache/turnpoint/teachers.sqlite) or ``off``.
    Off by default, as a server may change the weights behind a name."""
    cache_mib: PositiveFloat = 1024.0
    """Most MiB of answers that are kept; the least recently used go first."""

    @field_validator("api_key_env")
    @classmethod
    def _variable(cls, name: str | None) -> str | None:
        if name is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise ValueError("must be the name of an environment variable that holds the key, not the key")
        return name

    @field_validator("base_url")
    @classmethod
    def _plain_url(cls, url: str) -> str:
        try:
            parts = urlsplit(url)
            _ = parts.port
        except ValueError:  # its message repeats what may be a part of a password
            raise ValueError("is no address: host or port cannot be read") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("must be an address that starts with http:// or https://")
        if parts.username or parts.password:
            raise ValueError("must not hold a user name or password; name the key's variable in api_key_env")
        return url.rstrip("/")


def refuse_fields(body: dict[str, Any], fixed: set[str]) -> dict[str, Any]:
    """``body``, unless it sets a field that is not free. Raises ``ValueError``."""
    taken = sorted(fixed & body.keys())
    if taken:
        raise ValueError(f"must not set {', '.join(taken)}: settings of the same name exist or it is fixed")
    return body


class Endpoint:
    """Sends requests; safe to use from several event loops, one after another."""

    def __init__(self, settings: EndpointSettings, section: str, on_retry: Callable[[], None]) -> None:
        """``section`` names the settings in messages. Raises ``ConfigError`` if the key cannot be used."""
        self.settings = settings
        self._section = section
        self._on_retry = on_retry
        self.spending = Spending(settings, section)
        self.cache = open_cache(settings, section)
        self._served: dict[str, Any] = {}
        """What the endpoint's listing says about the model's weights."""
        self._key = _read_key(settings.api_key_env, section)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: httpx.AsyncClient | None = None
        self.gate = Gate(settings)

    @property
    def identity(self) -> dict[str, Any]:
        """Whose answers these are: the model, its revision, what the server says about it, and where it is served."""
        settings = self.settings
        where = (
            {"base_url": settings.base_url} if settings.revision is None else {"revision": settings.revision}
        )
        return {"model": settings.model, "served": self._served, **where}

    async def call(
        self,
        path: str,
        body: dict[str, Any],
        read: Callable[[httpx.Response], T],
        *,
        retries: int | None = None,
    ) -> T:
        """POST ``body`` until ``read`` accepts an answer, within the retries and the deadline.

        ``path`` is taken from ``base_url``, or from the server's root if it begins with ``//``; ``retries``: other
        than the settings say. Raises ``wire.CallFailed`` with a message that names the endpoint and never the key.
        """
        settings = self.settings
        self._enter_loop()
        try:
            async with self.gate.place(), asyncio.timeout(settings.deadline):
                return await self._persist(self._address(path), body, read, retries)
        except wire.CallFailed as failure:
            raise failure.final(self.describe(failure)) from None
        except TimeoutError:
            raise wire.CallFailed(
                TeacherFailure.TIME_OUT,
                f"{settings.base_url} gave no answer within {self._section}.deadline ({settings.deadline:g} s)",
                retry=False,
            ) from None

    def _address(self, path: str) -> str:
        base = self.settings.base_url
        if not path.startswith("//"):
            return base + path
        parts = urlsplit(base)
        return f"{parts.scheme}://{parts.netloc}{re.sub(r'/v[0-9]+$', '', parts.path)}{path[1:]}"

    async def _persist(
        self, address: str, body: dict[str, Any], read: Callable[[httpx.Response], T], retries: int | None
    ) -> T:
        """The first good answer, after as many retries as are allowed. Raises ``wire.CallFailed``."""
        settings, attempt = self.settings, 0
        ends = time.monotonic() + settings.deadline
        while True:
            await self.gate.calm()
            try:
                return read(await self._post(address, body))
            except wire.CallFailed as failure:
                if not failure.retry or attempt >= (settings.retries if retries is None else retries):
                    raise
                wait = wire.wait_seconds(failure.retry_after, attempt, settings.backoff, settings.backoff_max)
                if failure.retry_after is not None:
                    self.gate.pause(failure.retry_after)
                if time.monotonic() + wait > ends:  # a wait that the deadline would cut off is no use
                    told = f"{failure}; the next try would come after {self._section}.deadline"
                    raise wire.CallFailed(TeacherFailure.TIME_OUT, told, retry=False) from failure
            attempt += 1
            self._on_retry()
            await asyncio.sleep(wait)

    async def _post(self, address: str, body: dict[str, Any]) -> httpx.Response:
        assert self._client is not None
        with wire.transport_failures():
            # httpx limits each read; a server that drips bytes is stopped by the limit on the whole request.
            async with asyncio.timeout(self.settings.timeout):
                return await self._client.post(address, json=body)

    async def models(self) -> list[str] | None:
        """Names the endpoint lists; None where it has no listing. Raises ``wire.CallFailed``."""
        self._enter_loop()
        assert self._client is not None
        with wire.transport_failures():
            async with asyncio.timeout(min(self.settings.timeout, 30.0)):
                response = await self._client.get(f"{self.settings.base_url}/models")
        names = wire.read_models(response)
        if names is not None:
            self._served = wire.served(response, self.settings.model)
        return names

    def refuse_unknown_model(self, known: list[str] | None) -> None:
        """Raise ``ConfigError`` if the endpoint lists models and ours is not among them."""
        if known is not None and self.settings.model not in known:
            raise ConfigError(
                wire.unknown_model(self.settings.base_url, self.settings.model, known, self._section)
            )

    def broken(self, failure: wire.CallFailed) -> ConfigError:
        """The error for an endpoint that failed its check."""
        section = self._section
        return ConfigError(
            f"the teacher's endpoint does not work: {self.describe(failure)}; start the server or correct "
            f"{section}.base_url, {section}.model and {section}.api_key_env"
        )

    def describe(self, failure: wire.CallFailed) -> str:
        """A failure with the endpoint's address, without the key."""
        text, lead = str(failure), f"{self.settings.base_url} ({self.settings.model}): "
        text = text if text.startswith(self.settings.base_url) else lead + text
        return text.replace(self._key, "***") if self._key else text

    def _enter_loop(self) -> None:
        """Connections and locks belong to one event loop; a run may use a new one for every step."""
        loop = asyncio.get_running_loop()
        if self._client is not None and self._loop is loop:
            return
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        limits = httpx.Limits(max_connections=self.settings.concurrency)
        self._client = httpx.AsyncClient(headers=headers, timeout=self.settings.timeout, limits=limits)
        self.gate.enter_loop()
        self._loop = loop

    def metrics(self) -> dict[str, float]:
        """Calls that had to wait or were not sent, cost, use of the cache and what it saved, since it was built."""
        cost = {"cost": self.spending.cost_here} if self.spending.priced else {}
        cached = self.cache.metrics() | self.spending.spared() if self.cache is not None else {}
        return self.gate.metrics() | cost | cached

    async def close(self) -> None:
        """Close connections and cache; may be called twice."""
        if self.cache is not None:
            self.cache.close()
        client, self._client = self._client, None
        if client is not None and self._loop is asyncio.get_running_loop():
            await client.aclose()


def open_cache(settings: EndpointSettings, section: str) -> TeacherCache | None:
    """The cache that the settings name, if any. Raises ``ConfigError`` if the file cannot be used."""
    if settings.cache == "off":
        return None
    path = AUTO if settings.cache == "auto" else Path(settings.cache)
    return TeacherCache(path, section, int(settings.cache_mib * 2**20))


def _read_key(variable: str | None, section: str) -> str | None:
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if not key:
        raise ConfigError(
            f"{section}.api_key_env names the environment variable {variable}, which is not set; set it, or leave "
            "api_key_env out if the endpoint needs no key"
        )
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(
            f"the key in the environment variable {variable} has characters that no HTTP header can carry; "
            "set it to the key alone"
        )
    return key
