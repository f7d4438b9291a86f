"""Search-R1's ``/retrieve`` protocol, as a client that expects every kind of failure."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

import httpx

from turnpoint.envs.retrieval import HttpSettings, Passage, RetrieverError

MOST_BYTES = 16 << 20
"""Longest answer that is read."""
_SHOWN = 200


class HttpRetriever:
    """Asks a server; connections are kept and shared between threads."""

    def __init__(self, settings: HttpSettings) -> None:
        self.url, self.seconds = settings.url, settings.seconds
        self._client = httpx.Client(timeout=httpx.Timeout(settings.seconds), trust_env=False)

    def search(self, queries: Sequence[str], topk: int) -> list[list[Passage]]:
        """See ``Retriever``; there is one try, as an environment's time limit covers a whole step."""
        sent = [query.encode("utf-8", "replace").decode() for query in queries]
        body = self._ask({"queries": sent, "topk": topk, "return_scores": True})
        found = body.get("result") if isinstance(body, dict) else None
        if not isinstance(found, list) or len(found) != len(sent):
            raise self._error(f"answered without one result per query: {_short(body)}")
        try:
            return [[_passage(item) for item in hits[:topk]] for hits in found]
        except (TypeError, ValueError) as error:
            raise self._error(f"answered with something that is no list of documents ({error})") from error

    def close(self) -> None:
        """Close connections."""
        self._client.close()

    def _ask(self, body: dict[str, Any]) -> Any:
        deadline = time.monotonic() + self.seconds
        try:
            with self._client.stream("POST", self.url, json=body) as response:
                raw = self._read(response, deadline)
        except httpx.TimeoutException as error:
            raise self._error(f"gave no answer within {self.seconds:g} s") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self._error(f"cannot be reached: {error or type(error).__name__}") from error
        if response.status_code != 200:
            raise self._error(
                f"answered with status {response.status_code}: {_short(raw.decode(errors='replace'))}"
            )
        try:
            return json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise self._error(f"answered with something that is no JSON: {_short(raw)}") from error

    def _read(self, response: httpx.Response, deadline: float) -> bytes:
        """The body; each piece has the client's limit, all together have the deadline."""
        raw = bytearray()
        for piece in response.iter_bytes():
            raw += piece
            if len(raw) > MOST_BYTES:
                raise self._error(f"answered with more than {MOST_BYTES} bytes")
            if time.monotonic() > deadline:
                raise self._error(f"gave no whole answer within {self.seconds:g} s")
        return bytes(raw)

    def _error(self, what: str) -> RetrieverError:
        return RetrieverError(f"the retriever at {self.url} {what}")


def _passage(item: Any) -> Passage:
    """A scored hit, or a bare document."""
    if isinstance(item, dict) and "document" in item:
        return Passage.of(item["document"], float(item.get("score") or 0.0))
    return Passage.of(item)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
