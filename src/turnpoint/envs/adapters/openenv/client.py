"""A session with an OpenEnv server: one question, one answer, both with a time limit."""

from __future__ import annotations

import json
import weakref
from contextlib import ExitStack, suppress
from typing import Any

from turnpoint.envs.protocol import EnvError

_MOST_BYTES = 16 << 20


class OpenEnvError(EnvError):
    """A server could not do what was asked."""


class ServerGone(OpenEnvError):
    """There is no server, or it ended the session."""


class ServerSilent(OpenEnvError):
    """The server did not answer in time."""


class ServerRefused(OpenEnvError):
    """The server answered with an error; ``code`` is its word for it."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class Session:
    """The WebSocket ``/ws`` of a server; it opens with the first question, and anew after it broke."""

    def __init__(self, base_url: str, *, connect_seconds: float, seconds: float) -> None:
        self._address = f"ws{base_url.removeprefix('http')}/ws"
        self._connect_seconds, self._seconds = connect_seconds, seconds
        self._socket: Any = None
        self._end: weakref.finalize[..., Any] | None = None

    @property
    def is_open(self) -> bool:
        """Whether there is a session that a server may know of."""
        return self._socket is not None

    def ask(self, kind: str, data: dict[str, Any]) -> dict[str, Any]:
        """Send ``{"type": kind, "data": data}`` and give the answer's data.

        Raises ``ServerGone``, ``ServerSilent`` or ``ServerRefused``; after the first two the session is over.
        """
        from websockets.exceptions import ConnectionClosed, WebSocketException

        try:
            socket = self._open()
            # A server that refuses a session says why and closes it at once: the reason can still be read.
            with suppress(ConnectionClosed):
                socket.send(json.dumps({"type": kind, "data": data}))
            raw = socket.recv(timeout=self._seconds)
        except TimeoutError:
            self.close()
            raise ServerSilent(
                f"{self._address} did not answer '{kind}' within {self._seconds:g} s"
            ) from None
        except (OSError, WebSocketException) as error:
            self.close()
            raise ServerGone(
                f"{self._address} is gone: {str(error) or type(error).__name__}; is the server running?"
            ) from error
        except (
            BaseException
        ):  # an interrupt between question and answer: the next answer would be the wrong one
            self.close()
            raise
        return self._read(raw, kind)

    def _read(self, raw: str | bytes, kind: str) -> dict[str, Any]:
        try:
            answer = json.loads(raw)
        except (ValueError, RecursionError) as error:
            self.close()
            raise ServerRefused(
                f"{self._address} answered '{kind}' with something that is no JSON"
            ) from error
        data = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(data, dict):
            self.close()
            raise ServerRefused(f"{self._address} answered '{kind}' with no data")
        if answer.get("type") == "error":
            code = str(data.get("code", ""))
            raise ServerRefused(f"{self._address} refused '{kind}': {str(data.get('message'))[:500]}", code)
        return data

    def _open(self) -> Any:
        if self._socket is None:
            from websockets.sync.client import connect

            stack = ExitStack()
            self._socket = stack.enter_context(
                connect(
                    self._address,
                    open_timeout=self._connect_seconds,
                    close_timeout=1.0,
                    max_size=_MOST_BYTES,
                    ping_interval=None,
                    proxy=None,
                )
            )
            self._end = weakref.finalize(self, _leave, stack)
        return self._socket

    def close(self) -> None:
        """End the session; one that is forgotten ends likewise, as servers hold a place for each."""
        end, self._socket, self._end = self._end, None, None
        if end is not None:
            end()


def _leave(stack: ExitStack) -> None:
    with suppress(Exception):
        stack.close()
