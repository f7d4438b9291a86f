"""A scripted OpenAI-compatible endpoint on the loopback interface, for tests without a model or a network."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal

Behaviour = Literal["answer", "garbage", "hang", "half_close", "reset"]


@dataclass(frozen=True, slots=True)
class Scripted:
    """One answer of the endpoint."""

    text: str = ""
    """Content of the assistant's message."""
    status: int = 200
    """HTTP status; other than 200 the body is an error object with ``text`` as its message."""
    delay: float = 0.0
    """Seconds before the answer."""
    headers: Mapping[str, str] = field(default_factory=dict)
    behaviour: Behaviour = "answer"
    """``garbage``: a body that is no JSON; ``hang``: no answer ever; ``half_close``: the body ends early;
    ``reset``: the connection closes without a word."""
    body: Any = None
    """Sent as the JSON body instead of a chat completion."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request as the endpoint saw it."""

    method: str
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: Any
    """Decoded JSON, or None."""


Script = Callable[[Request], Scripted | str] | Iterable[Scripted | str]


class FakeEndpoint:
    """Answers ``POST /v1/chat/completions`` from a script and ``GET /v1/models`` from a list.

    ``POST /v1/completions``, and whatever else ``paths`` names, is answered from the same script, whose answers then
    need a ``body`` of that form.

    Used as a context manager; the server runs in its own thread, so tests may be synchronous or not. A script
    is a function of the request, or answers in order, of which the last one is repeated.
    """

    def __init__(
        self,
        script: Script = (),
        *,
        models: Iterable[str | Mapping[str, Any]] | None = ("fake-model",),
        paths: Iterable[str] = (),
    ) -> None:
        """``models``: names, or whole entries of the listing; None: the endpoint has no listing (404)."""
        self._script = script if callable(script) else None
        self._answers: deque[Scripted | str] = deque(() if callable(script) else script)
        self._models = None if models is None else list(models)
        self._paths = {"/v1/chat/completions", "/v1/completions", *paths}
        self.requests: list[Request] = []
        """Requests for completions, of either kind, in the order of their arrival."""
        self.open_now = 0
        self.open_most = 0
        """Most chat requests that were open at the same time."""
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="fake-endpoint", daemon=True)
        self._ready = threading.Event()
        self._stop = asyncio.Event()

    @property
    def url(self) -> str:
        """Base address for clients, up to the version."""
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> FakeEndpoint:
        self._thread.start()
        self._ready.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def _serve(self) -> None:
        try:
            self._loop.run_until_complete(self._run())
        finally:
            self._loop.close()

    async def _run(self) -> None:
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await _read_request(reader)
            if request is not None:
                await self._respond(request, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client went away, or the test is over
        finally:
            writer.close()

    async def _respond(self, request: Request, writer: asyncio.StreamWriter) -> None:
        if request.path == "/v1/models" and request.method == "GET":
            return await self._list_models(writer)
        if request.path not in self._paths or request.method != "POST":
            return await _send(writer, 404, {"error": {"message": f"no {request.path} here"}})
        self.requests.append(request)
        self.open_now += 1
        self.open_most = max(self.open_most, self.open_now)
        try:
            await self._answer(request, writer)
        finally:
            self.open_now -= 1

    async def _list_models(self, writer: asyncio.StreamWriter) -> None:
        if self._models is None:
            return await _send(writer, 404, {"error": {"message": "not found"}})
        entries = [{"id": model} if isinstance(model, str) else dict(model) for model in self._models]
        await _send(writer, 200, {"object": "list", "data": entries})

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> None:
        scripted = self._next(request)
        await asyncio.sleep(scripted.delay)
        if scripted.behaviour == "hang":
            await self._stop.wait()
        elif scripted.behaviour == "half_close":
            writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"choices":')
            await writer.drain()
        elif scripted.behaviour == "garbage":
            await _send(writer, 200, b"<html>upstream \xff\xfe is away</html>")
        elif scripted.behaviour == "answer":
            body = scripted.body if scripted.body is not None else _completion(scripted, request)
            await _send(writer, scripted.status, body, scripted.headers)

    def _next(self, request: Request) -> Scripted:
        if self._script is not None:
            answer = self._script(request)
        elif not self._answers:
            answer = Scripted("the script has no answer", status=500)
        else:
            answer = self._answers.popleft() if len(self._answers) > 1 else self._answers[0]
        return Scripted(answer) if isinstance(answer, str) else answer


async def _read_request(reader: asyncio.StreamReader) -> Request | None:
    line = (await reader.readline()).decode("latin-1").split()
    if len(line) != 3:
        return None
    headers = {}
    while (header := (await reader.readline()).decode("latin-1").strip()) != "":
        name, _, value = header.partition(":")
        headers[name.strip().lower()] = value.strip()
    raw = await reader.readexactly(int(headers.get("content-length", 0)))
    try:
        body = json.loads(raw) if raw else None
    except ValueError:
        body = None
    return Request(line[0], line[1], headers, body)


def _completion(scripted: Scripted, request: Request) -> dict[str, Any]:
    if scripted.status != 200:
        return {"error": {"message": scripted.text, "type": "scripted"}}
    asked = sum(len(str(m.get("content", "")).split()) for m in (request.body or {}).get("messages", ()))
    said = len(scripted.text.split())
    return {
        "id": "chatcmpl-fake",
        "object": "chat.completion",
        "model": (request.body or {}).get("model"),
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": scripted.text},
            }
        ],
        "usage": {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said},
    }


async def _send(
    writer: asyncio.StreamWriter, status: int, body: Any, headers: Mapping[str, str] | None = None
) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    fields = {"Content-Type": "application/json", "Content-Length": str(len(data)), "Connection": "close"}
    head = "".join(f"{name}: {value}\r\n" for name, value in (fields | dict(headers or {})).items())
    writer.write(f"HTTP/1.1 {status} Scripted\r\n{head}\r\n".encode("latin-1") + data)
    await writer.drain()
