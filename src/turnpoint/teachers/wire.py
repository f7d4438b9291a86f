"""The OpenAI chat protocol as real servers speak it: replies, failures, and how long to wait."""

from __future__ import annotations

import difflib
import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from turnpoint.teachers.protocol import TeacherFailure

_OVERLOADED = frozenset({408, 409, 425, 429})
_SHOWN = 300


class CallFailed(Exception):
    """One request failed; ``retry`` says whether another may succeed."""

    def __init__(
        self,
        reason: TeacherFailure,
        message: str,
        *,
        retry: bool,
        retry_after: float | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(message)
        self.reason, self.retry, self.retry_after, self.status = reason, retry, retry_after, status

    def final(self, message: str) -> CallFailed:
        """The same failure after the last try, in other words."""
        return CallFailed(self.reason, message, retry=False, status=self.status)


@dataclass(frozen=True, slots=True)
class Reply:
    """What is used of a chat completion."""

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    refusal: str | None = None
    arguments: str | None = None
    """Arguments of the tool call, if the model made one."""
    cut: bool = False
    """The length limit ended it."""


def sendable(text: str) -> str:
    """``text`` without lone surrogates, which cannot be sent."""
    return text.encode("utf-8", "replace").decode("utf-8")


@contextmanager
def transport_failures() -> Iterator[None]:
    """Turn what httpx raises into ``CallFailed``."""
    try:
        yield
    except (TimeoutError, httpx.TimeoutException) as error:
        raise CallFailed(TeacherFailure.TIME_OUT, "the request timed out", retry=True) from error
    except httpx.HTTPError as error:
        detail = f"{type(error).__name__}: {error}".rstrip(": ")
        raise CallFailed(TeacherFailure.UNREACHABLE, detail, retry=True) from error


def read_reply(response: httpx.Response) -> Reply:
    """The reply in a chat completion. Raises ``CallFailed`` for error statuses and bodies that are none."""
    raise_for_status(response)
    try:
        data = response.json()
        choice = data["choices"][0]
        message = choice["message"]
        text, refusal = _content(message.get("content")), message.get("refusal")
        usage, arguments = data.get("usage") or {}, _arguments(message.get("tool_calls"))
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise CallFailed(
            TeacherFailure.UNPARSABLE, f"not a chat completion: {response.text[:_SHOWN]!r}", retry=True
        ) from error
    if refusal is None and choice.get("finish_reason") == "content_filter":
        refusal = "content filter"
    return Reply(
        text,
        count(usage, "prompt_tokens"),
        count(usage, "completion_tokens"),
        str(refusal) if refusal else None,
        arguments,
        choice.get("finish_reason") == "length",
    )


def _arguments(calls: Any) -> str | None:
    """Arguments of the first tool call, as JSON text."""
    if not calls:
        return None
    given = calls[0]["function"]["arguments"]
    return given if isinstance(given, str) else json.dumps(given)


def _content(content: Any) -> str:
    """Text of a message: a string, a list of parts, or nothing."""
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content if part.get("type") == "text")
    if content is not None and not isinstance(content, str):
        raise TypeError("the content of a message is text")
    return content or ""


def count(usage: Any, name: str) -> int:
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if isinstance(value, int) and value > 0 else 0


def raise_for_status(response: httpx.Response) -> None:
    """Nothing for a success. Raises ``CallFailed``, to be retried for overload and server errors."""
    status = response.status_code
    if 200 <= status < 300:
        return
    message = f"status {status}: {response.text[:_SHOWN]!r}"
    after = retry_after(response.headers.get("retry-after"))
    if status in _OVERLOADED or status >= 500:
        raise CallFailed(TeacherFailure.UNREACHABLE, message, retry=True, retry_after=after, status=status)
    raise CallFailed(TeacherFailure.REFUSED, message, retry=False, status=status)


def retry_after(value: str | None) -> float | None:
    """Seconds of a Retry-After header, given as seconds or as a date; None if there is none to use."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            date = parsedate_to_datetime(value)
        except ValueError:
            return None
        date = date if date.tzinfo else date.replace(tzinfo=UTC)
        seconds = (date - datetime.now(UTC)).total_seconds()
    return max(seconds, 0.0) if seconds < float("inf") else None


def wait_seconds(asked: float | None, attempt: int, base: float, most: float) -> float:
    """Seconds before retry ``attempt`` (0-based): what the server asked, else exponential with half jitter.

    Jitter spreads the retries of many calls that failed together; it has no effect on any result.
    """
    if asked is not None:
        return asked * random.uniform(1.0, 1.1)
    return float(min(base * 2.0 ** min(attempt, 30), most)) * random.uniform(0.5, 1.0)


def read_models(response: httpx.Response) -> list[str] | None:
    """Names in a model listing; None where the endpoint has no usable listing. Raises ``CallFailed``."""
    if response.status_code in (404, 405, 501):
        return None
    raise_for_status(response)
    try:
        names = [model["id"] for model in response.json()["data"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return [name for name in names if isinstance(name, str)] or None


_WEIGHTS = ("id", "root", "parent", "owned_by")
_SHAPE = ("n_params", "n_vocab", "n_embd", "size")


def served(response: httpx.Response, model: str) -> dict[str, Any]:
    """What a listing says about a model that does not change while its weights do not.

    vLLM and SGLang give the path of the weights as ``root``, llama.cpp their size and shape under ``meta``; times of
    creation are left out, as some servers give the time of the request.
    """
    entry: dict[str, Any] = next((m for m in response.json()["data"] if m.get("id") == model), {})
    meta = entry.get("meta")
    shape = {name: meta[name] for name in _SHAPE if name in meta} if isinstance(meta, dict) else {}
    return {name: entry[name] for name in _WEIGHTS if entry.get(name) is not None} | shape


def unknown_model(base_url: str, model: str, known: list[str], section: str = "teacher") -> str:
    """Message for a model that the endpoint does not list."""
    near = difflib.get_close_matches(model, known, n=1, cutoff=0.4)
    shown = ", ".join(known[:8]) + (" …" if len(known) > 8 else "")
    hint = f"did you mean '{near[0]}'?" if near else f"it serves {shown}"
    return f"{section}.model is '{model}', but {base_url} does not serve it; {hint}"
